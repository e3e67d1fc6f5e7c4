/* Writes manual pages and tables of parameters. */
#include "common/harness/manual.h"

#include <ctype.h>
#include <string.h>

#include "common/harness/manual_private.h"
#include "common/harness/params_private.h"

enum { DETAILS_SIZE = 640 };

/* Prints the choices of a parameter with commas between. */
static void print_choices(const struct param *param, char *out, size_t size) {
    size_t used = 0;
    for (const char *c = param->choices; c != NULL && *c != '\0' && used + 3 < size; c++) {
        out[used++] = *c == '|' ? ',' : *c;
        if (*c == '|') out[used++] = ' ';
    }
    out[used] = '\0';
}

/* Returns the end of a sentence that may have its full stop already. */
static const char *sentence_end(const char *text) {
    size_t length = strlen(text);
    return length > 0 && text[length - 1] != '.' ? ".\n" : "\n";
}

/* Manual pages. */

/* Prints a text so that the formatter shows each character as it is. Hyphens of option names become \-, so that they
 * can be copied from the page. */
static void man_text(const char *text, bool name, FILE *out) {
    if (*text == '.' || *text == '\'') fputs("\\&", out);
    for (; *text != '\0'; text++) {
        if (*text == '\\')
            fputs("\\e", out);
        else if (*text == '-' && (name || text[1] == '-'))
            fputs("\\-", out);
        else
            fputc(*text, out);
    }
}

static void man_option(const char *name, const char *value, const char *help, FILE *out) {
    fputs(".TP\n\\fB\\-\\-", out);
    man_text(name, true, out);
    fputs("\\fR", out);
    if (value != NULL) {
        fputs(" \\fI", out);
        man_text(value, true, out);
        fputs("\\fR", out);
    }
    fputc('\n', out);
    man_text(help, false, out);
    fputs(sentence_end(help), out);
}

static void man_param(const struct param *param, FILE *out) {
    char limits[128], choices[DETAILS_SIZE];
    man_option(param->name, params_value_word(param), param->help != NULL ? param->help : "", out);
    params_limits_text(param, limits, sizeof limits);
    print_choices(param, choices, sizeof choices);
    if (choices[0] != '\0') fprintf(out, "One of: %s.\n", choices);
    if (limits[0] != '\0') fprintf(out, "Range: %s.\n", limits);
    if (param->list_count > 0) fprintf(out, "The list holds %d numbers.\n", param->list_count);
    if (param->required) fputs("Required.\n", out);
    if (param->changes != PARAM_NEVER)
        fprintf(out, "In a running session: %s.\n",
                param->changes == PARAM_LIVE ? "changes at once" : "changes by a restart of the stage");
    if (param->default_text != NULL && param->default_text[0] != '\0') {
        fputs("Default: ", out);
        man_text(param->default_text, true, out);
        fputs(".\n", out);
    }
}

static void man_title(const char *title, FILE *out) {
    fputs(".SH \"", out);
    for (; *title != '\0'; title++)
        fputc(toupper((unsigned char)*title), out);
    fputs("\"\n", out);
}

static void man_paragraph(const char *title, const char *text, FILE *out) {
    if (text == NULL) return;
    man_title(title, out);
    man_text(text, false, out);
    fputc('\n', out);
}

static void print_man(const struct manual *manual, FILE *out) {
    fputs(".\\\" Made from the tables of the program; do not edit.\n.TH \"", out);
    for (const char *c = manual->program; *c != '\0'; c++)
        fputc(toupper((unsigned char)*c), out);
    fprintf(out, "\" 1 \"\" \"icestream %s\" \"icestream\"\n.SH NAME\n", ICESTREAM_VERSION);
    man_text(manual->program, true, out);
    fputs(" \\- ", out);
    man_text(manual->summary, false, out);
    fputs("\n.SH SYNOPSIS\n", out);
    for (size_t i = 0; i < manual->synopsis_count; i++) {
        man_text(manual->synopsis[i], true, out);
        fputs(i + 1 < manual->synopsis_count ? "\n.br\n" : "\n", out);
    }
    man_paragraph("Description", manual->text, out);
    for (size_t p = 0; p < manual->part_count; p++) {
        const struct manual_part *part = &manual->parts[p];
        man_title(part->title, out);
        if (part->text != NULL) {
            man_text(part->text, false, out);
            fputc('\n', out);
        }
        for (size_t i = 0; i < part->option_count; i++)
            man_option(part->options[i].name, part->options[i].value, part->options[i].help, out);
        for (size_t i = 0; i < part->param_count; i++)
            man_param(&part->params[i], out);
    }
    man_paragraph("Exit status", manual->exit_codes, out);
    fputs(".SH \"SEE ALSO\"\n", out);
    if (strcmp(manual->program, "icestream") != 0) fputs("\\fBicestream\\fR(1).\n", out);
    fputs("The handbook and the list of all parameters lie in share/doc/icestream/docs of the installation.\n", out);
}

/* Tables of Markdown. */

static void cell(const char *text, FILE *out) {
    for (; *text != '\0'; text++) {
        if (*text == '|') fputc('\\', out);
        fputc(*text, out);
    }
}

static void row(const char *const *cells, size_t count, FILE *out) {
    for (size_t i = 0; i < count; i++) {
        fputs("| ", out);
        cell(cells[i], out);
        fputs(*cells[i] != '\0' ? " " : "", out);
    }
    fputs("|\n", out);
}

static void table_param(const struct param *param, FILE *out) {
    char name[96], limits[128], choices[DETAILS_SIZE], range[DETAILS_SIZE];
    snprintf(name, sizeof name, "`%s`", param->name);
    params_limits_text(param, limits, sizeof limits);
    print_choices(param, choices, sizeof choices);
    if (param->list_count > 0)
        snprintf(range, sizeof range, "%d numbers%s%s", param->list_count, limits[0] ? ", " : "", limits);
    else
        snprintf(range, sizeof range, "%s", choices[0] ? choices : limits);
    row((const char *const[]){name, params_type_name(param->type), param->unit != NULL ? param->unit : "",
                              param->required               ? "required"
                              : param->default_text != NULL ? param->default_text
                                                            : "",
                              range, params_changes_name(param->changes), param->help != NULL ? param->help : ""},
        7, out);
}

void manual_print_table(const struct manual_part *part, FILE *out) {
    if (part->option_count > 0) fputs("\n| option | value | what it does |\n|---|---|---|\n", out);
    for (size_t i = 0; i < part->option_count; i++) {
        char name[96];
        const struct manual_option *option = &part->options[i];
        snprintf(name, sizeof name, "`--%s`", option->name);
        row((const char *const[]){name, option->value != NULL ? option->value : "", option->help}, 3, out);
    }
    if (part->param_count > 0)
        fputs(
            "\n| parameter | type | unit | default | range | changes | what it does |\n|---|---|---|---|---|---|---|\n",
            out);
    for (size_t i = 0; i < part->param_count; i++)
        table_param(&part->params[i], out);
}

static void print_markdown(const struct manual *manual, FILE *out) {
    fprintf(out, "\n## %s\n\n", manual->program);
    if (manual->summary[0] != '\0') fputc(toupper((unsigned char)manual->summary[0]), out);
    fprintf(out, "%s%s", manual->summary[0] != '\0' ? manual->summary + 1 : "", sentence_end(manual->summary));
    for (size_t p = 0; p < manual->part_count; p++) {
        const struct manual_part *part = &manual->parts[p];
        if (part->elsewhere) continue;
        if (manual->part_count > 1 && part->command != NULL) fprintf(out, "\n### %s\n", part->title);
        if (part->text != NULL) fprintf(out, "\n%s\n", part->text);
        manual_print_table(part, out);
    }
}

enum status manual_form(const char *word, enum manual_form *ret_form, struct err *err) {
    static const char *const names[] = {"man", "markdown", "completion"};
    for (int i = 0; i < 3; i++)
        if (word != NULL && strcmp(word, names[i]) == 0) {
            *ret_form = (enum manual_form)i;
            return STATUS_OK;
        }
    FAIL_IF(word == NULL, err, STATUS_BAD_ARGUMENT, "--manual needs a word: man, markdown or completion");
    FAIL(err, STATUS_BAD_ARGUMENT, "--manual is '%s'; it must be man, markdown or completion", word);
}

void manual_print(const struct manual *manual, enum manual_form form, FILE *out) {
    switch (form) {
    case MANUAL_MAN:
        print_man(manual, out);
        return;
    case MANUAL_MARKDOWN:
        print_markdown(manual, out);
        return;
    case MANUAL_COMPLETION:
        manual_print_completion(manual, out);
        return;
    }
}
