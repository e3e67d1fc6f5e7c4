/* Writes bash completion. The script needs bash alone, not the package bash-completion. Where the script offers
 * nothing, as for a path, bash completes file names. */
#include <ctype.h>
#include <string.h>

#include "common/harness/manual_private.h"
#include "common/text.h"

/* Prints the name of the shell function that completes a program. */
static void print_function(const char *program, FILE *out) {
    fputc('_', out);
    for (; *program != '\0'; program++)
        fputc(isalnum((unsigned char)*program) ? *program : '_', out);
}

static void print_names(const struct manual_part *part, FILE *out) {
    for (size_t i = 0; i < part->option_count; i++)
        fprintf(out, " --%s", part->options[i].name);
    for (size_t i = 0; i < part->param_count; i++)
        fprintf(out, " --%s", part->params[i].name);
}

/* Prints a case for each option that takes a value, so that no option is offered in the place of a value. */
static void print_values(const struct manual_part *part, FILE *out) {
    for (size_t i = 0; i < part->option_count; i++)
        if (part->options[i].value != NULL) {
            char name[64];
            text_key(part->options[i].name, name, sizeof name);
            fprintf(out, "    --%s) return ;;\n", name);
        }
    for (size_t i = 0; i < part->param_count; i++) {
        const struct param *param = &part->params[i];
        if (param->type == PARAM_BOOL) {
            /* A boolean needs no value: options are offered beside true and false. */
            fprintf(out, "    --%s) words='true false' ;;\n", param->name);
        } else if (param->choices == NULL) {
            fprintf(out, "    --%s) return ;;\n", param->name);
        } else {
            fprintf(out, "    --%s) COMPREPLY=($(compgen -W '", param->name);
            for (const char *c = param->choices; *c != '\0'; c++)
                fputc(*c == '|' ? ' ' : *c, out);
            fputs("' -- \"$word\")); return ;;\n", out);
        }
    }
}

static bool has_commands(const struct manual *manual) {
    for (size_t i = 0; i < manual->part_count; i++)
        if (manual->parts[i].command != NULL) return true;
    return false;
}

/* Prints the list of options: of the command that is the first word, where the program has commands. */
static void print_options(const struct manual *manual, FILE *out) {
    bool commands = has_commands(manual);
    if (commands) fputs("  case ${COMP_WORDS[1]-} in\n", out);
    for (size_t i = 0; i < manual->part_count; i++) {
        const struct manual_part *part = &manual->parts[i];
        if (commands && part->command == NULL) continue;
        if (commands) fprintf(out, "    %s)", part->command);
        fputs(commands ? " words+='" : "  words+='", out);
        print_names(part, out);
        fputs(commands ? "' ;;\n" : "'\n", out);
    }
    if (commands) fputs("  esac\n", out);
}

static void print_first_words(const struct manual *manual, FILE *out) {
    if (!has_commands(manual)) return;
    fputs("  if [ \"$COMP_CWORD\" -eq 1 ]; then\n    COMPREPLY=($(compgen -W '", out);
    for (size_t i = 0; i < manual->part_count; i++)
        if (manual->parts[i].command != NULL)
            fprintf(out, "%s ", manual->parts[i].command);
        else
            print_names(&manual->parts[i], out);
    fputs("' -- \"$word\"))\n    return\n  fi\n", out);
}

void manual_print_completion(const struct manual *manual, FILE *out) {
    fprintf(out, "# bash completion of %s; made from its tables, do not edit.\n", manual->program);
    print_function(manual->program, out);
    fputs(
        "() {\n"
        "  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} words=\n"
        "  # bash splits --key=value into three words.\n"
        "  if [ \"$word\" = = ]; then word=; elif [ \"$before\" = = ]; then before=${COMP_WORDS[COMP_CWORD - 2]}; fi\n"
        "  COMPREPLY=()\n",
        out);
    print_first_words(manual, out);
    /* A hyphen may stand for the underscore, so cases have underscores. */
    fputs("  [ \"${before#--}\" = \"$before\" ] || { before=${before#--} before=--${before//-/_}; }\n"
          "  case $before in\n",
          out);
    for (size_t i = 0; i < manual->part_count; i++)
        print_values(&manual->parts[i], out);
    fputs("  esac\n", out);
    print_options(manual, out);
    fputs("  COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n}\ncomplete -o bashdefault -o default -F ", out);
    print_function(manual->program, out);
    fprintf(out, " %s\n", manual->program);
}
