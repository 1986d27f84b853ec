import { apiError } from "@sallyport/api";
import type { Db } from "../model/context.ts";
import type { EnrollmentRow } from "../model/identity/enrollments.ts";

/** What the enrolled party gets. */
export interface Enrolled {
  readonly cert?: string;
  readonly serverCert?: string;
  readonly ca?: string;
  readonly username?: string;
}

/** A credential that is ready, and is to be stored in the transaction that uses the token up. */
export type Redemption = (trx: Db, row: EnrollmentRow) => Promise<Enrolled>;

/** The identity that an invitation is for. @throws ApiError 400 when it is for a router */
export function identityOf(row: EnrollmentRow): string {
  if (row.identity_id === null) throw apiError("INVALID_ENROLLMENT_TOKEN");
  return row.identity_id;
}
