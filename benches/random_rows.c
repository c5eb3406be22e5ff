// How many rows of one int64 this machine's memory gives in a random order, with their numbers ready and asked for ahead: the limit
// of workload (c) at 10 million samples. Two threads, three rounds.
//
// cc -O2 -pthread benches/random_rows.c -o /tmp/random_rows && /tmp/random_rows
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { ROWS = 10000000, THREADS = 2, AHEAD = 32 };

static uint64_t *rows;
static uint32_t *order;
static volatile uint64_t sums[THREADS];

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec * 1e-9;
}

static void *add_up(void *number) {
    size_t thread = (size_t)number, end = (thread + 1) * ROWS / THREADS;
    uint64_t sum = 0;
    for (size_t i = thread * ROWS / THREADS; i < end; i++) {
        __builtin_prefetch(&rows[order[i + AHEAD < end ? i + AHEAD : i]]);
        sum += rows[order[i]];
    }
    sums[thread] = sum;
    return 0;
}

int main(void) {
    rows = malloc(ROWS * sizeof *rows);
    order = malloc(ROWS * sizeof *order);
    if (!rows || !order) return 1;
    for (uint32_t i = 0; i < ROWS; i++) rows[i] = order[i] = i;
    uint64_t random = 88172645463325252u;
    for (uint32_t i = ROWS - 1; i > 0; i--) {
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        uint32_t other = random % (i + 1), kept = order[i];
        order[i] = order[other], order[other] = kept;
    }
    for (int round = 0; round < 3; round++) {
        pthread_t threads[THREADS];
        double began = now();
        for (size_t i = 0; i < THREADS; i++) pthread_create(&threads[i], 0, add_up, (void *)i);
        for (size_t i = 0; i < THREADS; i++) pthread_join(threads[i], 0);
        printf("%.0f million rows/s\n", ROWS / (now() - began) / 1e6);
    }
}
