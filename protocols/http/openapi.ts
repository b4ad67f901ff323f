/** The document of the API (OpenAPI 3.1), made of the declarations of its endpoints and of nothing else. */
import type { z } from 'zod'
import { version } from '../../src/version.js'
import { tags, type Access, type Content, type Description, type Refusal } from './endpoint.js'
import { answerSchema, requestSchema, type Components, type JsonSchema } from './json-schema.js'
import { refusalsOf } from './refusals.js'

type Place = 'query' | 'header' | 'path' | 'cookie'

export interface Parameter {
  readonly name: string
  readonly in: Place
  readonly required: boolean
  readonly description?: string
  readonly schema: JsonSchema
}

type Media = Readonly<Record<string, { readonly schema?: JsonSchema }>>

export interface Operation {
  readonly operationId: string
  readonly tags: readonly string[]
  readonly summary: string
  readonly description?: string
  readonly security: readonly Readonly<Record<string, readonly string[]>>[]
  readonly parameters?: readonly Parameter[]
  readonly requestBody?: { readonly required: boolean; readonly description?: string; readonly content: Media }
  readonly responses: Readonly<Record<string, { readonly description: string; readonly content?: Media }>>
  /** Who may call, and the refusals with their texts: what the format itself has no place for. */
  readonly 'x-access': Access
  readonly 'x-refusals'?: readonly Refusal[]
}

export interface OpenApiDocument {
  readonly openapi: '3.1.0'
  readonly info: Readonly<Record<string, unknown>> & { readonly title: string; readonly description: string }
  readonly servers: readonly { readonly url: string }[]
  readonly tags: readonly { readonly name: string; readonly description: string }[]
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>
  readonly components: { readonly schemas: Components; readonly securitySchemes: Readonly<Record<string, object>> }
}

const about = `One tree of mounted storages, over the API of the AList / OpenList family.

Every answer below \`/api\` is an envelope: \`code\`, \`message\` and \`data\`, with HTTP status 200 whatever the code says. \
200 is success; any other code is a refusal, and \`message\` says why. In the texts of refusals \`…\` stands for what differs \
from case to case.

The token of a sign-in is the whole header \`Authorization\`; \`Bearer\` before it is accepted. Without a token it is the \
guest who asks, as long as that account is enabled.

Fields come as JSON or as a form, or as the query of a GET. Numbers and booleans may also be written as texts, null counts \
as absent, and fields that are not known are passed over.`

/** For a client that has it from the server itself; who hands it on names the server in it. */
export function openApiDocument(endpoints: readonly Description[]): OpenApiDocument {
  const schemas: Components = {}
  const paths: Record<string, Record<string, Operation>> = {}
  for (const endpoint of endpoints) {
    const item = (paths[endpoint.path] ??= {})
    for (const method of documentedMethods(endpoint)) item[method] = operation(endpoint, method, schemas)
  }
  const used = new Set(endpoints.map(({ tag }) => tag))
  return {
    openapi: '3.1.0',
    info: {
      title: 'Tidegate',
      version: version.slice(1),
      description: about,
      license: { name: 'MIT', identifier: 'MIT' },
    },
    servers: [{ url: '/' }],
    tags: Object.entries(tags)
      .map(([name, description]) => ({ name, description }))
      .filter(({ name }) => (used as ReadonlySet<string>).has(name)),
    paths,
    components: {
      schemas: Object.fromEntries(Object.entries(schemas).sort(([one], [other]) => (one < other ? -1 : 1))),
      securitySchemes: {
        token: {
          type: 'apiKey',
          in: 'header',
          name: 'Authorization',
          description: 'The token of a sign-in, as it is.',
        },
        bearer: { type: 'http', scheme: 'bearer', description: 'The same token in the form of RFC 6750.' },
      },
    },
  }
}

/** Of those that take any method, the two that clients use. */
export function documentedMethods({ method }: Description): readonly ('get' | 'post' | 'put')[] {
  return method === 'any' ? ['get', 'post'] : [method]
}

function operation(endpoint: Description, method: 'get' | 'post' | 'put', schemas: Components): Operation {
  const { access, content, description, fields, headers, params, query, summary, tag } = endpoint
  const parameters = [
    ...parametersOf(params, 'path', schemas),
    ...parametersOf(query, 'query', schemas),
    ...(method === 'get' ? parametersOf(fields, 'query', schemas) : []),
    ...parametersOf(headers, 'header', schemas),
  ]
  const id = operationId(endpoint, method)
  const body = method === 'get' ? undefined : (contentBody(content) ?? fieldsBody(endpoint, id, schemas))
  return {
    operationId: id,
    tags: [tag],
    summary,
    ...(description !== undefined && { description }),
    'x-access': access,
    security: securityOf(endpoint),
    ...(parameters.length > 0 && { parameters }),
    ...(body !== undefined && { requestBody: body }),
    responses: responsesOf(endpoint, schemas),
    ...(endpoint.plain === undefined && { 'x-refusals': refusalsOf(endpoint) }),
  }
}

function operationId({ method: declared, path }: Description, method: string): string {
  const name = path
    .replace(/^\/api/, '')
    .replace(/[^a-z0-9]+/gi, '_')
    .replace(/^_|_$/g, '')
  return declared === 'any' && method === 'get' ? `${name}_by_query` : name
}

function securityOf({ access, readsToken = false }: Description): Operation['security'] {
  const signedIn = [{ token: [] }, { bearer: [] }]
  if (access === 'anybody') return readsToken ? [...signedIn, {}] : []
  return access === 'guest' ? [...signedIn, {}] : signedIn
}

function parametersOf(schema: z.ZodType | undefined, place: Place, schemas: Components): readonly Parameter[] {
  if (schema === undefined) return []
  const { properties = {}, required = [] } = requestSchema(schema, schemas)
  return Object.entries(properties).map(([name, { cookie, description, ...property }]) => ({
    name: cookie ?? (place === 'header' ? headerName(name) : name),
    in: cookie === undefined ? place : 'cookie',
    required: required.includes(name),
    ...(description !== undefined && { description }),
    schema: property,
  }))
}

/** `X-File-Md5` of `x-file-md5`. */
function headerName(name: string): string {
  return name.replace(/(?<=^|-)[a-z]/g, (letter) => letter.toUpperCase())
}

function contentBody(content: Content | undefined): Operation['requestBody'] {
  if (content === undefined) return undefined
  const { description, part, type } = content
  const bytes: JsonSchema = { contentMediaType: 'application/octet-stream' }
  const schema: JsonSchema =
    part === undefined ? {} : { type: 'object', properties: { [part]: bytes }, required: [part] }
  return { required: true, description, content: { [type]: { schema } } }
}

function fieldsBody({ fields, listField }: Description, id: string, schemas: Components): Operation['requestBody'] {
  if (fields === undefined) return undefined
  const schema = requestSchema(fields, schemas)
  const name = componentName(id)
  schemas[name] = schema
  const reference: JsonSchema = { $ref: `#/components/schemas/${name}` }
  const list = listField === undefined ? undefined : schema.properties?.[listField]
  const json: JsonSchema = list === undefined ? reference : { anyOf: [list, reference] }
  const flat = Object.values(schema.properties ?? {}).every(fitsForm)
  return {
    required: (schema.required ?? []).length > 0,
    content: {
      'application/json': { schema: json },
      ...(flat && {
        'application/x-www-form-urlencoded': { schema: reference },
        'multipart/form-data': { schema: reference },
      }),
    },
  }
}

/** A form has texts, and lists of texts. */
function fitsForm({ type, items }: JsonSchema): boolean {
  return type !== 'object' && (type !== 'array' || items?.type === 'string')
}

/** `FsBatchRenameFields` of `fs_batch_rename`. */
function componentName(id: string): string {
  return `${id.replace(/(?:^|_)([a-z0-9])/g, (_match, letter: string) => letter.toUpperCase())}Fields`
}

function responsesOf(endpoint: Description, schemas: Components): Operation['responses'] {
  if (endpoint.plain !== undefined) {
    return Object.fromEntries(
      endpoint.plain.map(({ description, status, types }) => [
        String(status),
        { description, ...(types && { content: Object.fromEntries(types.map((type) => [type, { schema: {} }])) }) },
      ]),
    )
  }
  const data: JsonSchema = endpoint.data === undefined ? { type: 'null' } : answerSchema(endpoint.data, schemas)
  const codes = [...new Set(refusalsOf(endpoint).map(({ code }) => code))]
  const refusal = envelope({ enum: codes }, refusalDataSchema(endpoint.refusalData))
  return {
    200: {
      description: 'The answer, or a refusal: `code` says which.',
      content: { 'application/json': { schema: { oneOf: [envelope({ const: 200 }, data), refusal] } } },
    },
  }
}

function envelope(code: JsonSchema, data: JsonSchema): JsonSchema {
  return {
    type: 'object',
    properties: { code: { type: 'integer', ...code }, message: { type: 'string' }, data },
    required: ['code', 'message', 'data'],
  }
}

/** Before it is known who calls there is none in any case. */
function refusalDataSchema(data: Description['refusalData']): JsonSchema {
  if (data === undefined) return { type: 'null' }
  const names = Object.keys(data)
  const properties = Object.fromEntries(names.map((name): [string, JsonSchema] => [name, { type: 'integer' }]))
  return { anyOf: [{ type: 'object', properties, required: names }, { type: 'null' }] }
}
