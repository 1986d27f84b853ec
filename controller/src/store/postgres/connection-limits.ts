/** For every lasting connection to PostgreSQL: no wait is without end, neither for a free or new connection nor for a server that has silently gone. */
export const CONNECTION_LIMITS = {
  connectionTimeoutMillis: 10_000,
  keepAlive: true,
  keepAliveInitialDelayMillis: 10_000,
} as const;
