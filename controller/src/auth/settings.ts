/** How often something may happen: `burst` at once, and `perMinute` in the long run. */
export interface Rate {
  readonly burst: number;
  readonly perMinute: number;
}

/** What an operator decides about authentication (`auth` in controller.yml). */
export interface AuthSettings {
  readonly rateLimits: {
    readonly enabled: boolean;
    /** Authentications and enrollments from one address, whatever comes of them. */
    readonly address: Rate;
    /** Wrong passwords for one user name from one address; ten times as many from all addresses together. */
    readonly failures: Rate;
  };
  /** API sessions of one identity at once; the one that is idle for longest gives way. */
  readonly maxApiSessions: number;
  readonly jwks: {
    /** Private networks and addresses that the JWKS of a signer may be fetched from, as `10.0.0.0/8` or `127.0.0.1`. */
    readonly allowedNetworks: readonly string[];
    /** The JWKS of a signer may be fetched over plain HTTP. */
    readonly allowPlainHttp?: boolean;
    /** Certificates (PEM) that are trusted for that besides those of the system. */
    readonly caPem?: string;
  };
}
