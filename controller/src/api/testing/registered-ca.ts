import type { ThirdParty } from "../../auth/testing/third-party.ts";
import type { TestController } from "./test-controller.ts";

/** What a registered authority may do: everything, unless a test takes some of it away. */
export const ALLOWING = {
  isAuthEnabled: true,
  isAutoCaEnrollmentEnabled: true,
  isOttCaEnrollmentEnabled: true,
  identityRoles: ["enrolled"],
  identityNameFormat: "",
};

/** Registers an authority and proves its possession; answers the id. */
export async function registerCa(
  c: TestController,
  authority: ThirdParty,
  fields: Readonly<Record<string, unknown>> & { readonly name: string },
): Promise<string> {
  const id = await c.make("cas", { ...ALLOWING, certPem: authority.certPem, ...fields });
  await verifyCa(c, authority, id);
  return id;
}

export async function verifyCa(c: TestController, authority: ThirdParty, id: string): Promise<void> {
  const { verificationToken } = (await c.admin("GET", `/cas/${id}`)).json.data;
  const { certPem } = await authority.issue({ commonName: verificationToken });
  const answer = await c.admin("POST", `/cas/${id}/verify`, certPem);
  if (answer.status !== 200) throw new Error(`verification answered ${answer.status}: ${answer.text}`);
}
