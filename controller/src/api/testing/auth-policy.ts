interface Parts {
  readonly cert?: object;
  readonly updb?: object;
  readonly extJwt?: object;
  readonly secondary?: object;
}

/** The body of an auth policy that allows every primary method and asks for nothing more, but for the parts that are given. */
export function authPolicy(name: string, { cert, updb, extJwt, secondary }: Parts = {}) {
  return {
    name,
    primary: {
      cert: { allowed: true, allowExpiredCerts: false, ...cert },
      updb: {
        allowed: true,
        minPasswordLength: 5,
        requireSpecialChar: false,
        requireNumberChar: false,
        requireMixedCase: false,
        maxAttempts: 0,
        lockoutDurationMinutes: 0,
        ...updb,
      },
      extJwt: { allowed: true, allowedSigners: [], ...extJwt },
    },
    secondary: { requireTotp: false, ...secondary },
  };
}
