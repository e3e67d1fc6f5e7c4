/* What was said of images: a small file for each (IMAGE_score.csv), and the tables that are made of all of them. */
#ifndef ICESTREAM_STAGES_CRYSTAL_SCORER_SCORES_H
#define ICESTREAM_STAGES_CRYSTAL_SCORER_SCORES_H

#include "stages/crystal-scorer/model.h"

struct score {
    char *image, *id; /* path as the item has it; the item's id */
    enum outcome outcome;
    float probability[OUTCOMES]; /* by outcome; 0 of those that the model does not know */
    bool in_series;
    struct series_name *series; /* where in_series */
    float smoothed[OUTCOMES];
};

struct scores {
    struct score *rows;
    size_t count, capacity;
};

/* The likeliest of the model's classes, and all by outcome. */
void score_set(struct score *score, const struct model *model, const float *of_class);
double score_crystal(const float probability[OUTCOMES]); /* of any crystal */

/* image,outcome and a column for each outcome; one row. */
enum status score_write(const struct score *score, const char *path, struct err *err);
/* Reads that, and adds it. */
enum status scores_add(struct scores *scores, const char *path, const char *id, struct err *err);
void scores_clear(struct scores *scores);

/* Lays the pattern over the ids and smooths each drop's probabilities with the model. */
enum status scores_smooth(struct scores *scores, const struct model *model, const char *pattern, struct err *err);

/* scores.csv; crystals.csv: rank,image,crystal,outcome of those whose probability of any crystal (smoothed, where it is)
 * is at least `likely`, the likeliest first; with a pattern series.csv: image,drop,time,outcome and smoothed
 * probabilities, in the order of drops and times. May change the order of rows. */
enum status scores_tables(struct scores *scores, const char *folder, double likely, bool smoothed, struct err *err);

#endif
