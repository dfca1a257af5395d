/* Two GPUs of a driver. GPU 1 tells its throttle reasons by the older name alone, and its memory; it
   is lost while the file that FAKE_LOST names exists. A program of somebody else's fills GPU 0; the
   process that FAKE_SERVICE names is on GPU 1. FAKE_HIDDEN: it lists no processes. */
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef struct { int index; } device;
typedef struct { unsigned gpu, memory; } utilization;
typedef struct { unsigned long long total, free, used; } memory;
typedef struct { unsigned version; unsigned long long total, reserved, free, used; } memory_v2;
typedef struct { unsigned pid; unsigned long long used; unsigned gpu_instance, compute_instance; } process;
typedef union { double d; unsigned ui; unsigned long ul; unsigned long long ull; long long ll; } number;
typedef struct {
    unsigned fieldId, scopeId;
    long long timestamp, latencyUsec;
    int valueType, nvmlReturn;
    number value;
} field;

enum { SUCCESS = 0, NOT_SUPPORTED = 3, INSUFFICIENT_SIZE = 7, LOST = 15 };
static device devices[2] = {{0}, {1}};

static int answer(device *d) {
    const char *file = getenv("FAKE_LOST");
    return d->index == 1 && file && access(file, F_OK) == 0 ? LOST : SUCCESS;
}

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec + now.tv_nsec / 1e9;
}

static unsigned watts(device *d) { return d->index ? 100 : 420; }

int nvmlInitWithFlags(unsigned flags) { return SUCCESS; }
int nvmlShutdown(void) { return SUCCESS; }
const char *nvmlErrorString(int code) { return code == LOST ? "GPU is lost" : "Not Supported"; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = 2; return SUCCESS; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, device **d) { *d = &devices[i]; return SUCCESS; }
int nvmlDeviceGetName(device *d, char *name, unsigned size) {
    strncpy(name, "NVIDIA H200", size);
    return SUCCESS;
}
int nvmlDeviceGetEnforcedPowerLimit(device *d, unsigned *mw) { *mw = 700000; return SUCCESS; }
int nvmlDeviceGetPowerUsage(device *d, unsigned *mw) { *mw = 1; return answer(d); }
int nvmlDeviceGetUtilizationRates(device *d, utilization *u) {
    u->gpu = d->index ? 0 : 97;
    u->memory = d->index ? 0 : 41;
    return answer(d);
}
int nvmlDeviceGetMemoryInfo(device *d, memory *m) {
    m->total = 143771ull << 20;
    m->used = (d->index ? 618ull : 120616ull) << 20;
    m->free = m->total - m->used;
    return answer(d);
}
int nvmlDeviceGetMemoryInfo_v2(device *d, memory_v2 *m) {
    m->total = 143771ull << 20;
    m->reserved = 616ull << 20;
    m->used = 120000ull << 20;
    m->free = m->total - m->reserved - m->used;
    return d->index ? NOT_SUPPORTED : SUCCESS;
}
int nvmlDeviceGetClockInfo(device *d, int kind, unsigned *mhz) {
    *mhz = kind == 2 ? 3201 : 1980;
    return answer(d);
}
int nvmlDeviceGetCurrentClocksEventReasons(device *d, unsigned long long *bits) {
    *bits = 4;
    return d->index ? NOT_SUPPORTED : SUCCESS;
}
int nvmlDeviceGetCurrentClocksThrottleReasons(device *d, unsigned long long *bits) {
    *bits = 0;
    return answer(d);
}
int nvmlDeviceGetTemperature(device *d, int sensor, unsigned *degrees) {
    *degrees = 61;
    return answer(d);
}
int nvmlDeviceGetComputeRunningProcesses_v3(device *d, unsigned *count, process *found) {
    const char *service = getenv("FAKE_SERVICE");
    unsigned room = *count;
    if (getenv("FAKE_HIDDEN")) return NOT_SUPPORTED;
    *count = d->index == 0 || service;
    if (*count > room) return INSUFFICIENT_SIZE;
    if (*count) *found = (process){d->index ? atoi(service) : 699, 84516ull << 20, -1, -1};
    return answer(d);
}
int nvmlDeviceGetFieldValues(device *d, int count, field *fields) {
    for (int i = 0; i < count; i++) {
        fields[i].nvmlReturn = SUCCESS;
        if (fields[i].fieldId == 186)
            fields[i].value.ui = watts(d) * 1000;
        else if (fields[i].fieldId == 83)
            fields[i].value.ull = (unsigned long long)(watts(d) * seconds() * 1000);
        else
            fields[i].nvmlReturn = NOT_SUPPORTED;
    }
    return answer(d);
}
