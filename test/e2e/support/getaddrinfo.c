// Prints the addresses of a name as the C library resolves it; exit status 2 for a name that has none.
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

int main(int count, char **arguments) {
  struct addrinfo hints, *found;
  char text[128];
  if (count != 2) return 64;
  memset(&hints, 0, sizeof hints);
  hints.ai_socktype = SOCK_STREAM;
  int code = getaddrinfo(arguments[1], "80", &hints, &found);
  if (code != 0) {
    printf("%s\n", gai_strerror(code));
    return 2;
  }
  for (; found; found = found->ai_next) {
    getnameinfo(found->ai_addr, found->ai_addrlen, text, sizeof text, 0, 0, NI_NUMERICHOST);
    printf("%s\n", text);
  }
  return 0;
}
