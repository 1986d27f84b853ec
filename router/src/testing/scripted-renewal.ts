import { decodeControl, EdgeCtrlType, edgeCtrlPb, encodeControl, type Outgoing } from "@sallyport/wire";
import type { TestAuthority } from "@sallyport/wire/testing";
import type { ScriptedController } from "./scripted-controller.ts";
import { signedRequest } from "./signed-request.ts";

/** How a scripted controller renews certificates; may be changed while it runs. */
export class ScriptedRenewal {
  readonly requests: edgeCtrlPb.EnrollmentExtendRouterRequest[] = [];
  /** Client certificates that were shown to it. */
  readonly shown: string[] = [];
  /** Sent with the certificates. */
  caPem = "";
  lifetimeMs = 86_400_000;
  /** The certificates are the answer to the request, not a message of their own. */
  answers = false;
  /** What a request is answered with in place of certificates. */
  refusal: Outgoing | undefined;
  /** Called when a certificate is shown; its text refuses it. */
  verify: (certPem: string) => string | Promise<string> = () => "";

  constructor(controller: ScriptedController, authority: TestAuthority) {
    controller.on(EdgeCtrlType.EnrollmentExtendRouterRequest, (message, channel) => {
      const request = decodeControl(edgeCtrlPb.EnrollmentExtendRouterRequestSchema, message.body);
      this.requests.push(request);
      if (this.refusal !== undefined) {
        channel.reply(message, this.refusal);
        return;
      }
      const sign = (csr: string) => signedRequest(authority, csr, this.lifetimeMs);
      void Promise.all([sign(request.clientCertCsr), sign(request.serverCertCsr)]).then(([client, server]) => {
        const body = encodeControl(edgeCtrlPb.EnrollmentCertsResponseSchema, {
          clientCertPem: client,
          serverCertPem: server,
          caCertsPem: this.caPem,
        });
        const issued = { contentType: EdgeCtrlType.EnrollmentCertsResponse, body };
        if (this.answers) channel.reply(message, issued);
        else channel.send(issued);
      });
    });
    controller.on(EdgeCtrlType.EnrollmentExtendRouterVerifyRequest, (message, channel) => {
      const { clientCertPem } = decodeControl(edgeCtrlPb.EnrollmentExtendRouterVerifyRequestSchema, message.body);
      this.shown.push(clientCertPem);
      void Promise.resolve(this.verify(clientCertPem)).then((refusal) => {
        const code = refusal === "" ? "" : "INVALID";
        const body = encodeControl(edgeCtrlPb.ErrorSchema, { code, message: refusal });
        channel.reply(message, { contentType: EdgeCtrlType.Error, body });
      });
    });
  }
}
