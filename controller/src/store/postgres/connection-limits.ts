/** For every lasting connection to PostgreSQL: no wait is without end, neither for a free or new connection nor for a server that has silently gone. */
export const CONNECTION_LIMITS = {
  connectionTimeoutMillis: 10_000,
  keepAlive: true,
  keepAliveInitialDelayMillis: 10_000,
} as const;

/** How long a request waits for a free connection: shorter than the time that it has. */
export const POOL_WAIT_MS = 5_000;

/**
 * Settings of the connections that serve requests. No statement outlasts the request that it belongs to, no lock is waited for longer, and a
 * transaction whose program forgot it holds nothing for ever.
 */
export const REQUEST_SETTINGS =
  "SET statement_timeout = '10s'; SET lock_timeout = '9s'; SET idle_in_transaction_session_timeout = '60s'";
