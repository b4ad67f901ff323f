/**
 * Writes web/api/schema.ts: what the console knows of the HTTP API, from the OpenAPI document of the built server. Types
 * of requests and responses, enumerations of what has names in the document, and the other constants.
 */
import { writeFile } from 'node:fs/promises'
import openapiTs, { astToString } from 'openapi-typescript'
import { documentedEndpoints } from '../dist/protocols/http/endpoints.js'
import { openApiDocument } from '../dist/protocols/http/api/openapi.js'
import { protocols } from '../dist/protocols/index.js'

const document = openApiDocument(documentedEndpoints)
const { schemas } = document.components
const bits = Object.values(schemas).find((schema) => 'x-bits' in schema)['x-bits']
/** The sum of these is `Permissions`. */
const Permission = { type: 'integer', enum: Object.values(bits), 'x-enum-varnames': Object.keys(bits) }
const types = await openapiTs(
  { ...document, components: { ...document.components, schemas: { ...schemas, Permission } } },
  { defaultNonNullable: false, enum: true, conditionalEnums: true },
)

const paths = [...Object.keys(document.paths), ...protocols.map(({ path = '' }) => path)]
const firstNames = new Set(paths.map((path) => path.split('/', 2)[1]).filter(Boolean))
const operations = Object.values(document.paths).flatMap((methods) => Object.values(methods))
const refusals = operations.flatMap((operation) => operation['x-refusals'] ?? [])
const unauthenticated = new Set(refusals.filter(({ code }) => code === 401).map(({ error }) => error))

/** A list of strings, as a type of its members too. */
const list = (name, about, values) =>
  `/** ${about} */\nexport const ${name} = ${JSON.stringify([...values].sort())} as const\n`

const withAppPasswords = protocols.filter(({ appPasswords }) => appPasswords).map(({ name }) => name)

const constants = [
  list('serverNames', 'First names of the addresses that the server itself answers.', firstNames),
  list('signedOutErrors', 'Names of the errors by which the server asks to sign in.', unauthenticated),
  list('appPasswordProtocols', 'The protocols that accept app passwords.', withAppPasswords),
  `/** In bytes, and in numbers of values. */\nexport const limits = ${JSON.stringify(document['x-limits'])} as const\n`,
]
await writeFile(new URL('api/schema.ts', import.meta.url), [astToString(types), ...constants].join('\n'))
