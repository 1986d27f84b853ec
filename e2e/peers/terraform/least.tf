# One of each kind without any list that may be left out. No posture checks: v1.6.0 answers [] for their role attributes, too, and
# the provider's plan never settles with either controller.
terraform {
  required_providers {
    ziti = {
      source = "netfoundry/ziti"
    }
  }
}

resource "ziti_identity" "least" {
  name = "least"
}

resource "ziti_edge_router" "least" {
  name = "least-router"
}

resource "ziti_service" "least" {
  name = "least"
}

resource "ziti_external_jwt_signer" "least" {
  name     = "least"
  issuer   = "https://least.example"
  audience = "least"
  cert_pem = "-----BEGIN CERTIFICATE-----"
}

resource "ziti_service_policy" "least" {
  name     = "least"
  semantic = "AnyOf"
  type     = "Dial"
}

resource "ziti_edge_router_policy" "least" {
  name     = "least"
  semantic = "AnyOf"
}

resource "ziti_service_edge_router_policy" "least" {
  name     = "least"
  semantic = "AnyOf"
}
