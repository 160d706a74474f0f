/* What the C programs of the tests share: checks that end the program with a word about what went
 * wrong, and cases by name. */
#ifndef CHECK_H
#define CHECK_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define UNUSED __attribute__((unused))

/* The last check that was made: a program that hangs can say how far it came. */
static volatile int checked_line;

UNUSED static void is(long long have, long long want, const char *what, const char *file, int line) {
    if (have != want) {
        fprintf(stderr, "%s:%d: %s: %lld, not %lld\n", file, line, what, have, want);
        _exit(2);
    }
    checked_line = line;
}

#define IS(have, want) is((long long)(have), (long long)(want), #have, __FILE__, __LINE__)
#define OK(call) IS(call, 0)
#define HOLDS(condition) IS(!!(condition), 1)

/* Ends the program if two texts differ. */
#define SAME(have, want)                                                                        \
    do {                                                                                        \
        const char *have_ = (have), *want_ = (want);                                            \
        if (!have_ || strcmp(have_, want_)) {                                                   \
            fprintf(stderr, "%s:%d: %s: `%s`, not `%s`\n", __FILE__, __LINE__, #have, have_, want_); \
            _exit(2);                                                                           \
        }                                                                                       \
    } while (0)

UNUSED static void on_a_thread(void *(*run)(void *), void *with) {
    pthread_t thread;
    OK(pthread_create(&thread, NULL, run, with));
    OK(pthread_join(thread, NULL));
}

/* Runs the case that the first argument names. */
#define RUN(name)                                                                               \
    if (argc > 1 && !strcmp(argv[1], #name)) {                                                  \
        name();                                                                                 \
        puts("all is well");                                                                    \
        return 0;                                                                               \
    }

#define NO_SUCH_CASE (fprintf(stderr, "there is no such case\n"), 4)

#endif
