// How many rows of one int64 this machine's memory gives in a random order, with their numbers ready and asked for ahead: the limit
// of workload (c) at 10 million samples. Two threads; the median of nine rounds, for memory in pages of 4 KB and of 2 MB (as NumPy
// asks for), and for rows that are asked into the first cache and into the second.
//
// cc -O2 -pthread benches/random_rows.c -o /tmp/random_rows && /tmp/random_rows
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

enum { ROWS = 10000000, THREADS = 2, AHEAD = 64, ROUNDS = 9, HUGE_PAGE = 1 << 21 };

static uint64_t *rows;
static uint32_t *order;
static volatile uint64_t sums[THREADS];

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec * 1e-9;
}

// `locality` is a constant of the compiler's: 3 asks for the first cache, 2 for the second.
#define ADD_UP(name, locality)                                                                  \
    static void *name(void *number) {                                                           \
        size_t thread = (size_t)number, end = (thread + 1) * ROWS / THREADS;                    \
        uint64_t sum = 0;                                                                       \
        for (size_t i = thread * ROWS / THREADS; i < end; i++) {                                \
            __builtin_prefetch(&rows[order[i + AHEAD < end ? i + AHEAD : i]], 0, locality);     \
            sum += rows[order[i]];                                                              \
        }                                                                                       \
        sums[thread] = sum;                                                                     \
        return 0;                                                                               \
    }
ADD_UP(by_first_cache, 3)
ADD_UP(by_second_cache, 2)

static void *pages(size_t bytes, int advice) {
    size_t room = (bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
    void *memory = aligned_alloc(HUGE_PAGE, room);
    if (!memory) exit(1);
    madvise(memory, room, advice);
    return memory;
}

static void shuffle(void) {
    for (uint32_t i = 0; i < ROWS; i++) rows[i] = order[i] = i;
    uint64_t random = 88172645463325252u;
    for (uint32_t i = ROWS - 1; i > 0; i--) {
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        uint32_t other = random % (i + 1), kept = order[i];
        order[i] = order[other], order[other] = kept;
    }
}

static int ascending(const void *one, const void *other) {
    double difference = *(const double *)one - *(const double *)other;
    return (difference > 0) - (difference < 0);
}

static void measure(const char *what, void *(*add_up)(void *)) {
    double rates[ROUNDS];
    for (int round = 0; round < ROUNDS; round++) {
        pthread_t threads[THREADS];
        double began = now();
        for (size_t i = 0; i < THREADS; i++) pthread_create(&threads[i], 0, add_up, (void *)i);
        for (size_t i = 0; i < THREADS; i++) pthread_join(threads[i], 0);
        rates[round] = ROWS / (now() - began) / 1e6;
    }
    qsort(rates, ROUNDS, sizeof *rates, ascending);
    printf("%s: %.0f million rows/s, best %.0f\n", what, rates[ROUNDS / 2], rates[ROUNDS - 1]);
}

int main(void) {
    const struct { const char *size; int advice; } kinds[] = {{"4 KB", MADV_NOHUGEPAGE}, {"2 MB", MADV_HUGEPAGE}};
    for (int kind = 0; kind < 2; kind++) {
        rows = pages(ROWS * sizeof *rows, kinds[kind].advice);
        order = pages(ROWS * sizeof *order, kinds[kind].advice);
        shuffle();
        printf("pages of %s, ", kinds[kind].size), measure("asked into the first cache", by_first_cache);
        printf("pages of %s, ", kinds[kind].size), measure("asked into the second cache", by_second_cache);
        free(rows), free(order);
    }
}
