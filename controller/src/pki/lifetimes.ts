/** How long certificates live, in milliseconds. */
export interface Lifetimes {
  readonly root: number;
  readonly intermediate: number;
  readonly controller: number;
  readonly router: number;
  readonly identity: number;
  readonly session: number;
}

const DAY = 86_400_000;

/** Of the authorities; no file sets them. */
export const AUTHORITY_LIFETIMES: Pick<Lifetimes, "root" | "intermediate"> = {
  root: 7305 * DAY,
  intermediate: 3652 * DAY,
};

/** Remaining life at which a certificate is renewed: 7 days, or a third of its life if that is less. */
export function isDueForRenewal(
  certificate: { readonly validFromDate: Date; readonly validToDate: Date },
  now: Date,
): boolean {
  const life = certificate.validToDate.getTime() - certificate.validFromDate.getTime();
  return certificate.validToDate.getTime() - now.getTime() < Math.min(7 * DAY, life / 3);
}
