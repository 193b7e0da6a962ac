#include "train/signals.h"

#include <signal.h>
#include <string.h>

static volatile sig_atomic_t stop_signal;

static void on_signal(int signal_number)
{
    if (stop_signal == SIGINT && signal_number == SIGINT) {
        signal(SIGINT, SIG_DFL);
        raise(SIGINT);
    }
    stop_signal = signal_number;
}

void signals_install(void)
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_signal;
    action.sa_flags = SA_RESTART;
    sigemptyset(&action.sa_mask);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGUSR1, &action, NULL);
}

int signals_stop_requested(void)
{
    return stop_signal;
}
