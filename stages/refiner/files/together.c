#include "stages/refiner/files/together.h"

#include "common/files.h"

enum status write_together(int count, int threads, together_write *write, const void *context, struct err *err) {
    enum status statuses[TOGETHER_MOST] = {STATUS_OK};
    struct err errs[TOGETHER_MOST] = {{0}};
    const struct file_observer *observer = file_observed_by();
    FAIL_IF(count > TOGETHER_MOST, err, STATUS_BAD_STATE, "%d files are too many at a time", count);
#pragma omp parallel for num_threads(threads) schedule(dynamic)
    for (int i = 0; i < count; i++) {
        const struct file_observer *before = file_observe(observer);
        statuses[i] = write(context, i, &errs[i]);
        file_observe(before);
    }
    for (int i = 0; i < count; i++)
        if (statuses[i] != STATUS_OK) {
            if (err != NULL) *err = errs[i];
            return statuses[i];
        }
    return STATUS_OK;
}
