/** A certificate of an identity, as far as plans look at it. */
export interface HeldCertificate {
  /** SHA-1, 40 lower-case hex digits. */
  readonly fingerprint: string;
  /** Id of the identity, which is its subject. */
  readonly identityId: string;
  readonly notBefore: Date;
  readonly notAfter: Date;
}

/** A certificate that was issued to replace the one in force, and is not in force itself. */
export interface StagedCertificate extends HeldCertificate {
  /** Since when clients can find it. */
  readonly since: Date;
}

/** The certificate in force, whose place in the Secret has been taken by the one that replaces it. */
export interface FormerCertificate extends HeldCertificate {
  /** Since when clients can find the other one. */
  readonly since: Date;
}

/** What stands under the name of an identity's Secret (docs/operator/identities.md, "The Secret"). */
export type HeldSecret =
  | { readonly state: "absent" }
  /** Whoever made it, it was not us. */
  | { readonly state: "foreign" }
  | {
      readonly state: "ours";
      /** Enrollment token, when there is one. */
      readonly token?: string | undefined;
      readonly identity?: HeldCertificate | undefined;
      readonly next?: StagedCertificate | undefined;
      readonly former?: FormerCertificate | undefined;
      /** Id of the identity for which a key was made that has no certificate yet. */
      readonly enrolling?: string | undefined;
      /** Value of the annotation re-enroll that the key was made for. */
      readonly reEnroll?: string | undefined;
    };

export type OwnSecret = Extract<HeldSecret, { readonly state: "ours" }>;
