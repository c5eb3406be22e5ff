// A libnvidia-ml.so.1 with three GPUs, for tests: one of Hopper, one without counters (GPM), and a partition that knows its memory alone. FAKE_NVML says what is wrong:
// "none": no driver; "old": nvmlGpmQueryDeviceSupport is not known; "lost": the first GPU stops answering after its first figures; "odd": counters that are no shares.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SUCCESS = 0, NOT_SUPPORTED = 3, NOT_FOUND = 6, UNINITIALIZED = 1, DRIVER_NOT_LOADED = 9, FUNCTION_NOT_FOUND = 13, GPU_IS_LOST = 15 };

typedef struct { unsigned long long total, free, used; } Memory;
typedef struct { unsigned gpu, memory; } Utilization;
typedef struct { unsigned version, isSupportedDevice; } Support;
typedef struct { unsigned metricId; int nvmlReturn; double value; const char *names[3]; } Metric;
typedef struct { unsigned version, numMetrics; void *sample1, *sample2; Metric metrics[]; } MetricsGet;
typedef struct { int taken; } Sample;

static int number_of(void *device) { return (int)(long)device - 1; }
static int is(const char *what) { const char *said = getenv("FAKE_NVML"); return said && !strcmp(said, what); }
static int samples, memory_calls;

int nvmlInitWithFlags(unsigned flags) { return is("none") ? DRIVER_NOT_LOADED : SUCCESS; }
int nvmlShutdown(void) { return SUCCESS; }
const char *nvmlErrorString(int code) { return "an error of the fake"; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = 3; return SUCCESS; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) { *device = (void *)(long)(index + 1); return index < 3 ? SUCCESS : NOT_FOUND; }
int nvmlDeviceGetName(void *device, char *name, unsigned length) { snprintf(name, length, "Fake H%d", 100 + number_of(device)); return SUCCESS; }
int nvmlDeviceGetUUID(void *device, char *uuid, unsigned length) { snprintf(uuid, length, "GPU-%d000-abc", number_of(device) + 1); return SUCCESS; }
int nvmlDeviceGetMemoryInfo(void *device, Memory *memory) {
    if (is("lost") && number_of(device) == 0 && memory_calls++) return GPU_IS_LOST;
    memory->total = 80000000000ull; memory->used = 1000000000ull * (number_of(device) + 1); memory->free = memory->total - memory->used;
    return SUCCESS;
}
int nvmlDeviceGetUtilizationRates(void *device, Utilization *used) { used->gpu = 87; used->memory = 40; return number_of(device) == 2 ? NOT_SUPPORTED : SUCCESS; }
int nvmlDeviceGetPowerUsage(void *device, unsigned *milliwatts) { *milliwatts = 312500; return number_of(device) == 2 ? NOT_SUPPORTED : SUCCESS; }
#ifndef OLD
int nvmlGpmQueryDeviceSupport(void *device, Support *support) { support->isSupportedDevice = number_of(device) == 0; return support->version == 1 ? SUCCESS : NOT_SUPPORTED; }
#endif
int nvmlGpmSampleAlloc(void **sample) { *sample = calloc(1, sizeof(Sample)); return SUCCESS; }
int nvmlGpmSampleFree(void *sample) { free(sample); return SUCCESS; }
int nvmlGpmSampleGet(void *device, void *sample) { ((Sample *)sample)->taken = ++samples; return SUCCESS; }
int nvmlGpmMetricsGet(MetricsGet *wanted) {
    if (wanted->version != 1) return NOT_SUPPORTED;
    if (((Sample *)wanted->sample1)->taken + 1 != ((Sample *)wanted->sample2)->taken) return UNINITIALIZED; // not the last one and a newer one
    for (unsigned number = 0; number < wanted->numMetrics; number++) {
        Metric *metric = &wanted->metrics[number];
        metric->nvmlReturn = SUCCESS;
        metric->value = is("odd") ? 1e308 * 10 : metric->metricId == 2 ? 62.5 : metric->metricId == 5 ? 25.0 : -1.0;
    }
    return SUCCESS;
}
