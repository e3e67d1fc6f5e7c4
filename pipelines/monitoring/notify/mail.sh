#!/bin/sh
# Sends alarms of icestream by mail, with the machine's own sendmail. Copy the script, set the addresses, and name the
# copy in the graph: session: {notify: /opt/site/mail.sh}. It needs python3 and sendmail (postfix, exim, msmtp …).
# The text of the alarms comes on standard input, in the form of Alertmanager's webhook.
set -eu
TO=${ICESTREAM_MAIL_TO:-microscope@example.org}
FROM=${ICESTREAM_MAIL_FROM:-icestream@$(hostname)}
SENDMAIL=${ICESTREAM_SENDMAIL:-/usr/sbin/sendmail}

# Python makes the message, so that no name of a file can add a header to it.
message=$(python3 -c '
import email.message, email.policy, json, sys
group = json.load(sys.stdin)
alerts = group["alerts"]
firing = [alert for alert in alerts if alert["status"] == "firing"]
message = email.message.EmailMessage()
message["From"], message["To"] = sys.argv[1:]
session = group["commonLabels"]["session"]
names = ", ".join(sorted({alert["labels"]["alertname"] for alert in firing or alerts}))
subject = f"[icestream] {session}: {names}" + ("" if firing else " (over)")
message["Subject"] = " ".join(subject.split())
lines = ["Session: " + group["commonAnnotations"]["folder"], ""]
for alert in alerts:
    mark = alert["labels"]["severity"].upper() if alert["status"] == "firing" else "OVER"
    lines.append(f"{mark}: " + alert["annotations"]["summary"])
    lines.append("  " + alert["annotations"]["description"])
    lines.append("  since " + alert["startsAt"] + (", until " + alert["endsAt"] if alert["status"] != "firing" else ""))
    lines.append("")
message.set_content("\n".join(lines))
sys.stdout.write(message.as_bytes(policy=email.policy.SMTP.clone(linesep="\n")).decode())
' "$FROM" "$TO")
printf '%s\n' "$message" | "$SENDMAIL" -t -oi
