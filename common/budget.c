#include "common/budget.h"

#include <stdint.h>

static size_t smaller(size_t a, size_t b) {
    return a < b ? a : b;
}

struct budget budget_divide(size_t wanted, size_t total, size_t reserve, size_t address, int replicas) {
    size_t machine = total == SIZE_MAX ? SIZE_MAX : total - smaller(reserve, total / 2);
    size_t limit = smaller(wanted > 0 ? wanted : machine, address);
    return (struct budget){.limit = limit, .share = limit == SIZE_MAX ? limit : limit / (size_t)replicas};
}

enum budget_verdict budget_judge(const struct budget *budget, const struct budget_item *item) {
    if (item->need > budget->limit) return BUDGET_NEVER;
    if (!item->alone && item->after > budget->share) return BUDGET_FULL;
    if (item->after <= item->held) return BUDGET_FITS;
    /* Held memory that is not in use yet will still be taken from the machine's room. */
    size_t touched = smaller(item->touched, item->held);
    return item->after - smaller(touched, item->after) > item->room ? BUDGET_SHORT : BUDGET_FITS;
}
