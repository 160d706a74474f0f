/* A program that knows no GPU runtime, and opens a library that does for itself alone. */
#include <dlfcn.h>
#include <sys/mman.h>

#include "check.h"

#ifdef FOR_HIP
#define MALLOC "hipMalloc"
#else
#define MALLOC "cudaMalloc"
#endif

static void *open_plugin(void) {
    void *library = dlopen(getenv("PLUGIN"), RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        _exit(3);
    }
    return library;
}

static void run_plugin(void *library) {
    void (*run)(void) = dlsym(library, "plugin");
    HOLDS(run != NULL);
    run();
}

static void late(void) {
    int (*hooked)(void **, size_t) = dlsym(RTLD_DEFAULT, MALLOC);
    void *block = NULL;
    HOLDS(hooked != NULL);
    IS(hooked(&block, 100), 3); /* Not initialised: no runtime is there yet. */
    void *library = open_plugin();
    HOLDS(dlsym(RTLD_DEFAULT, MALLOC) == (void *)hooked);
    OK(hooked(&block, 100));
    HOLDS(block != NULL);
    run_plugin(library);
}

/* A library that goes may take the runtime along; the next one may get it somewhere else. */
static void twice(void) {
    enum { PAGE = 4096 };
    void *library = open_plugin();
    char *place = dlsym(library, MALLOC); /* As the runtime has it. */
    run_plugin(library);
    OK(dlclose(library));
    place -= (uintptr_t)place % PAGE;
    void *taken = mmap(place, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    HOLDS(taken == MAP_FAILED || taken == place);
    run_plugin(open_plugin());
}

int main(int argc, char **argv) {
    RUN(late);
    RUN(twice);
    return NO_SUCH_CASE;
}
