/** The body of an external JWT signer whose keys are fetched. */
export const extJwtSigner = (name: string) => ({
  name,
  issuer: name,
  audience: "a",
  enabled: true,
  jwksEndpoint: "https://idp.example/jwks",
});
