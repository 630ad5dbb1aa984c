/* Sockets that wait for clients. */
#include "listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "complain.h"

enum { BACKLOG = 1024 };

static int failed(int file, const char *what, const char *where)
{
    complain(0, "can't %s %s: %s", what, where, strerror(errno));
    if (file >= 0) close(file);
    return -1;
}

static int ready(int file, const char *where)
{
    if (listen(file, BACKLOG) || fcntl(file, F_SETFL, O_NONBLOCK) || fcntl(file, F_SETFD, FD_CLOEXEC))
        return failed(file, "listen on", where);
    return file;
}

/* ---- Unix ---- */

/* A socket that nobody listens on any more is in the way; anything else stays. */
static bool clear_stale(const struct sockaddr_un *name)
{
    struct stat status;
    if (lstat(name->sun_path, &status) || !S_ISSOCK(status.st_mode)) return false;
    int file = socket(AF_UNIX, SOCK_STREAM, 0);
    bool refused = file >= 0 && connect(file, (const struct sockaddr *)name, sizeof *name) && errno == ECONNREFUSED;
    if (file >= 0) close(file);
    return refused && !unlink(name->sun_path);
}

static int open_unix(const char *path, char address[ADDRESS])
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    if (!*path || strlen(path) >= sizeof name.sun_path) {
        complain(0, "--socket \"%s\": a path of 1 to %zu bytes is needed", path, sizeof name.sun_path - 1);
        return -1;
    }
    memcpy(name.sun_path, path, strlen(path) + 1);
    int file = socket(AF_UNIX, SOCK_STREAM, 0);
    if (file < 0) return failed(file, "make a socket for", path);
    int code = bind(file, (const struct sockaddr *)&name, sizeof name);
    if (code && errno == EADDRINUSE && clear_stale(&name))
        code = bind(file, (const struct sockaddr *)&name, sizeof name);
    if (code) return failed(file, "listen on", path);
    snprintf(address, ADDRESS, "unix:%s", path);
    return ready(file, path);
}

/* ---- TCP ---- */

static int bind_one(const struct addrinfo *at)
{
    int on = 1, file = socket(at->ai_family, at->ai_socktype, at->ai_protocol);
    if (file < 0) return -1;
    setsockopt(file, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (!bind(file, at->ai_addr, at->ai_addrlen)) return file;
    int code = errno;
    close(file);
    errno = code;
    return -1;
}

static void describe(int file, char address[ADDRESS])
{
    struct sockaddr_storage name;
    socklen_t size = sizeof name;
    char host[INET6_ADDRSTRLEN] = "", port[16] = "";
    if (!getsockname(file, (struct sockaddr *)&name, &size))
        getnameinfo((struct sockaddr *)&name, size, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV);
    snprintf(address, ADDRESS, name.ss_family == AF_INET6 ? "http://[%s]:%s" : "http://%s:%s", host, port);
}

static int open_tcp(const struct settings *settings, char address[ADDRESS])
{
    char port[16], where[ADDRESS];
    struct addrinfo *list, hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
    snprintf(port, sizeof port, "%u", settings->port);
    snprintf(where, sizeof where, "%.200s, port %s", settings->host, port);
    int code = getaddrinfo(settings->host, port, &hints, &list), file = -1;
    if (code) {
        complain(0, "--host \"%s\": %s", settings->host, gai_strerror(code));
        return -1;
    }
    for (const struct addrinfo *at = list; at && file < 0; at = at->ai_next) file = bind_one(at);
    freeaddrinfo(list);
    if (file < 0) return failed(-1, "listen on", where);
    describe(file, address);
    return ready(file, where);
}

int listen_open(const struct settings *settings, char address[ADDRESS])
{
    return settings->socket ? open_unix(settings->socket, address) : open_tcp(settings, address);
}

void listen_close(const struct settings *settings)
{
    if (settings->socket) unlink(settings->socket);
}
