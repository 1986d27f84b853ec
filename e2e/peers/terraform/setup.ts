import { install } from "../install.ts";

/** OpenTofu and the provider, which no other suite needs. */
export function setup(): void {
  install("the suite of the Terraform provider", {
    "terraform-provider": "SALLYPORT_TERRAFORM_PROVIDER",
    tofu: "SALLYPORT_TOFU",
  });
}
