/** What the provider asks of its pages: everything comes in as text, and a whole answer goes out. Source: docs/protocol/authentication.md. */
import type { EndpointAnswer } from "../../http/endpoints.ts";

/** One step of a login in a browser. */
export interface PageView {
  /** The id of the auth request: the hidden field `id` of every form. */
  readonly requestId: string;
  /** Binds the steps after the first factor to this browser: the hidden field {@link PAGE_SECRET_FIELD}. */
  readonly pageSecret: string | undefined;
  /** The program that asks: its client id. */
  readonly client: string;
  /** Where the login ends: the origin of the redirect URI, `http://localhost:8080`, or its scheme alone, `openziti:`. */
  readonly redirectOrigin: string;
  /** What was wrong with the last try, as a sentence for the user. */
  readonly problem?: string;
  /** Of the answer; 200 when it is left out. */
  readonly status?: number;
  /** External identity providers whose tokens this step takes as well. */
  readonly signers: readonly { readonly name: string }[];
}

/** A first enrollment of one-time codes, during a login. */
export interface EnrollmentView extends PageView {
  /** Of what the page shows: the hidden field {@link ENROLLMENT_FIELD}. */
  readonly enrollmentId: string;
  readonly provisioningUrl: string;
  readonly recoveryCodes: readonly string[];
}

/** The hidden field that carries {@link PageView.pageSecret}. */
export const PAGE_SECRET_FIELD = "pageSecret";

/** The hidden field that carries {@link EnrollmentView.enrollmentId}: a code counts only for the enrollment that its page showed. */
export const ENROLLMENT_FIELD = "enrollmentId";

/** The pages of a login. Their forms go to `/oidc/login/password`, `/cert`, `/totp` and `/totp/enroll/verify`. */
export interface Pages {
  /** Fields `username` and `password`; a second form goes to `/oidc/login/cert`. */
  password(view: PageView): EndpointAnswer;
  /** Field `code`. */
  code(view: PageView): EndpointAnswer;
  /** QR code, secret and recovery codes, and the field `code` for the first one. */
  enrollment(view: EnrollmentView): Promise<EndpointAnswer>;
  /** An error that ends the login. */
  failure(status: number, text: string): EndpointAnswer;
  /** After a logout. */
  ended(): EndpointAnswer;
  /** A link for programs that a browser does not open by itself, such as `openziti://auth/callback?…`. */
  open(link: string): EndpointAnswer;
}
