/** Converts the zod schemas of requests and responses into JSON Schema (draft 2020-12) for the OpenAPI document. */
import { z } from 'zod'

/** The subset of JSON Schema that the conversion produces. */
export interface JsonSchema {
  $ref?: string
  type?: string | string[]
  description?: string
  properties?: Record<string, JsonSchema>
  required?: string[]
  items?: JsonSchema
  additionalProperties?: JsonSchema | boolean
  propertyNames?: JsonSchema
  anyOf?: JsonSchema[]
  oneOf?: JsonSchema[]
  enum?: unknown[]
  const?: unknown
  default?: unknown
  examples?: unknown[]
  format?: string
  pattern?: string
  minimum?: number
  maximum?: number
  minLength?: number
  maxLength?: number
  contentMediaType?: string
  /** Extension: the names of the values in `enum`, in their order. */
  'x-enum-varnames'?: string[]
  /** Extension: the names and values of the bits of an integer. */
  'x-bits'?: Readonly<Record<string, number>>
  /** For a property of the header schema that is a cookie: the cookie's name. Removed from the document. */
  cookie?: string
}

/** Schemas by their component names in the document. */
export type Components = Record<string, JsonSchema>

/** A node with the metadata of our zod schemas. */
interface AnnotatedSchema extends JsonSchema {
  /** Replaces the schema that zod derives. */
  wire?: JsonSchema
  /** Zod drops `examples` of schemas that transform, so they are declared as `example`. */
  example?: unknown
}

const definitionsPrefix = '#/$defs/'
const componentsPrefix = '#/components/schemas/'

/**
 * The JSON Schema of a request, in canonical form: without null, and without the string forms of numbers and booleans,
 * which the description of the document covers. Adds schemas with an `id` to `named`.
 */
export function requestSchema(schema: z.ZodType, named: Components): JsonSchema {
  return convert(schema, named, (node) => {
    if (node.anyOf !== undefined) replaceBy(node, withoutNull(node.anyOf))
  })
}

/** The JSON Schema of a response. Adds schemas with an `id` to `named`. */
export function responseSchema(schema: z.ZodType, named: Components): JsonSchema {
  return convert(schema, named, () => undefined)
}

/**
 * Converts a schema and calls `adapt` for each node without `wire`. Adds schemas with an `id` in their metadata to
 * `named`.
 */
function convert(schema: z.ZodType, named: Components, adapt: (node: JsonSchema) => void): JsonSchema {
  // Wrapped in an object, because zod makes a reference only of a nested schema with an id.
  const wrapper = z.toJSONSchema(z.object({ it: schema }), {
    io: 'input',
    override({ jsonSchema }) {
      const node = jsonSchema as AnnotatedSchema
      if (node.wire === undefined) adapt(node)
      else replaceBy(node, node.wire)
      simplify(node)
    },
  })
  const text = JSON.stringify(wrapper).replaceAll(`"${definitionsPrefix}`, `"${componentsPrefix}`)
  const { $defs = {}, properties } = JSON.parse(text) as JsonSchema & { $defs?: Components }
  for (const [name, definition] of Object.entries($defs)) named[name] = withoutId(definition)
  return properties?.it ?? {}
}

/** Replaces `node` by `other`, except for its description and example. */
function replaceBy(node: AnnotatedSchema, other: JsonSchema): void {
  const { description, example } = node
  for (const key of Object.keys(node)) Reflect.deleteProperty(node, key)
  Object.assign(node, other, description !== undefined && { description }, example !== undefined && { example })
}

function withoutNull(choices: readonly JsonSchema[]): JsonSchema {
  const remaining = choices.filter(({ type }) => type !== 'null')
  return remaining.length === 1 && remaining[0] !== undefined ? remaining[0] : { anyOf: remaining }
}

/**
 * Removes redundant keywords: the range of safe integers, the pattern of date-times, `propertyNames`. Converts
 * `example` to `examples`.
 */
function simplify(node: AnnotatedSchema): void {
  if (node.example !== undefined) node.examples = [node.example]
  delete node.example
  if (node.minimum === Number.MIN_SAFE_INTEGER) delete node.minimum
  if (node.maximum === Number.MAX_SAFE_INTEGER) delete node.maximum
  if (node.format === 'date-time') delete node.pattern
  delete node.propertyNames
  if (node.type === 'number' && node.enum?.every(Number.isInteger) === true) node.type = 'integer'
}

function withoutId({ id: _id, ...definition }: JsonSchema & { id?: string }): JsonSchema {
  return definition
}
