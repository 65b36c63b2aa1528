"use strict";
SwaggerUIBundle({
  url: "api/openapi.json",
  dom_id: "#reference",
  deepLinking: true,
  validatorUrl: null,
  persistAuthorization: false,
});
