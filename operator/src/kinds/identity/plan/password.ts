import type { Tags } from "../../../entity/ownership.ts";

/** Tag of an authenticator: which state of the user's Secret its password is from. */
export const PASSWORD_TAG = "sallyport-password-version";

/** The password that the spec refers to. */
export interface WantedPassword {
  readonly username: string;
  /** Changes with the Secret; says nothing about what is in it. */
  readonly version: string;
}

export interface FoundPassword {
  readonly id: string;
  readonly username?: string | undefined;
  readonly tags?: Tags | null | undefined;
}

/** What to do about a login by password: what is stored can't be read back, so the tag tells whether it is the one in the Secret. */
export function planPassword(wanted: WantedPassword, found: FoundPassword | undefined): "create" | "update" | "none" {
  if (found === undefined) return "create";
  return found.username === wanted.username && found.tags?.[PASSWORD_TAG] === wanted.version ? "none" : "update";
}
