#!/bin/sh
# Sends alarms of icestream to a web address with curl. Copy the script, set URL and KIND, and name the copy in the graph:
# session: {notify: /opt/site/webhook.sh}. It needs curl; for `slack` and `ntfy` python3 too.
#   KIND=plain  posts the JSON as it comes, in the form of Alertmanager's webhook: what takes Alertmanager's takes it
#   KIND=slack  posts {"text": …}: an incoming webhook of Slack, Mattermost or Rocket.Chat
#   KIND=ntfy   posts the text: a topic of ntfy.sh, which reaches a telephone
set -eu
URL=${ICESTREAM_WEBHOOK_URL:-https://example.org/hook}
KIND=${ICESTREAM_WEBHOOK_KIND:-plain}
CURL=${ICESTREAM_CURL:-curl}

words='
import json, sys
group = json.load(sys.stdin)
lines = []
for alert in group["alerts"]:
    mark = alert["labels"]["severity"].upper() if alert["status"] == "firing" else "OVER"
    session = alert["labels"]["session"]
    summary, description = alert["annotations"]["summary"], alert["annotations"]["description"]
    lines.append(f"{mark} {session}: {summary}: {description}")
text = "\n".join(lines)
print(json.dumps({"text": text}) if sys.argv[1] == "slack" else text)
'
case $KIND in
  plain) type=application/json body=$(cat) ;;
  slack) type=application/json body=$(python3 -c "$words" slack) ;;
  ntfy) type=text/plain body=$(python3 -c "$words" ntfy) ;;
  *) echo "KIND is '$KIND'; it must be plain, slack or ntfy" >&2; exit 2 ;;
esac
printf '%s' "$body" | "$CURL" --silent --show-error --fail --max-time 15 --header "Content-Type: $type" --data-binary @- "$URL"
