/** Writes the types of the HTTP API to web/api/schema.d.ts, from the OpenAPI document of the built server. */
import { writeFile } from 'node:fs/promises'
import openapiTs, { astToString } from 'openapi-typescript'
import { documentedEndpoints } from '../dist/protocols/http/endpoints.js'
import { openApiDocument } from '../dist/protocols/http/api/openapi.js'

const types = await openapiTs(openApiDocument(documentedEndpoints), { defaultNonNullable: false })
await writeFile(new URL('api/schema.d.ts', import.meta.url), astToString(types))
