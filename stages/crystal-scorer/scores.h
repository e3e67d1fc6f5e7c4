/* Scores of images: a small file for each image (IMAGE_score.csv), and tables of all images. */
#ifndef ICESTREAM_STAGES_CRYSTAL_SCORER_SCORES_H
#define ICESTREAM_STAGES_CRYSTAL_SCORER_SCORES_H

#include "stages/crystal-scorer/model.h"

struct score {
    char *image, *id; /* path as in the item; id of the item */
    enum outcome outcome;
    float probability[OUTCOMES]; /* by outcome; 0 for outcomes that the model does not know */
    bool in_series;
    struct series_name *series; /* if in_series */
    float smoothed[OUTCOMES];   /* probability by outcome after scores_smooth, if in_series */
};

struct scores {
    struct score *rows;
    size_t count, capacity;
};

/* Sets outcome (the likeliest class) and probability. of_class[classes]: the forest's probabilities. */
void score_set(struct score *score, const struct model *model, const float *of_class);
/* Returns the probability of any crystal. */
double score_crystal(const float probability[OUTCOMES]);

/* Writes one row: image, outcome and a column for each outcome. */
enum status score_write(const struct score *score, const char *path, struct err *err);
/* Reads a file that score_write has written, and adds its row. */
enum status scores_add(struct scores *scores, const char *path, const char *id, struct err *err);
void scores_clear(struct scores *scores);

/* Matches the ids with the pattern, and smooths each drop's probabilities with the model. */
enum status scores_smooth(struct scores *scores, const struct model *model, const char *pattern, struct err *err);

/* Writes scores.csv, and crystals.csv: rank,image,crystal,outcome of images whose probability of any crystal is at
 * least `likely`, the likeliest first. If probabilities are smoothed, these count, and series.csv holds
 * image,drop,time,outcome and smoothed probabilities in the order of drops and times. May change the order of rows. */
enum status scores_tables(struct scores *scores, const char *folder, double likely, bool smoothed, struct err *err);

#endif
