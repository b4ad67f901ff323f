/** The schemas that check requests and describe answers, as JSON Schema (draft 2020-12) for the document of the API. */
import { z } from 'zod'

/** The part of JSON Schema that our schemas come out as. */
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
  /** Of a header that carries a cookie: its name. Never in the document itself. */
  cookie?: string
}

/** Schemas by the name that they have in the document. */
export type Components = Record<string, JsonSchema>

/** With what our schemas say in their metadata. */
interface Adaptable extends JsonSchema {
  /** Instead of what zod makes of the schema. */
  wire?: JsonSchema
  /** Zod itself leaves out the examples of schemas that transform. */
  example?: unknown
}

const definitions = '#/$defs/'
const components = '#/components/schemas/'

/** What a request may bring, in its plainest spelling: null counts as absent, and numbers may also be texts, but that is said once for all. */
export function requestSchema(schema: z.ZodType, named: Components): JsonSchema {
  return convert(schema, named, (node) => {
    if (node.anyOf !== undefined) replaceBy(node, withoutNull(node.anyOf))
  })
}

export function answerSchema(schema: z.ZodType, named: Components): JsonSchema {
  return convert(schema, named, () => undefined)
}

/** Schemas with an `id` in their metadata go into `named`. */
function convert(schema: z.ZodType, named: Components, adapt: (node: JsonSchema) => void): JsonSchema {
  // A schema with an id of its own becomes a reference only inside another one.
  const whole = z.toJSONSchema(z.object({ it: schema }), {
    io: 'input',
    override({ jsonSchema }) {
      const node = jsonSchema as Adaptable
      if (node.wire === undefined) adapt(node)
      else replaceBy(node, node.wire)
      tidy(node)
    },
  })
  const text = JSON.stringify(whole).replaceAll(`"${definitions}`, `"${components}`)
  const { $defs = {}, properties } = JSON.parse(text) as JsonSchema & { $defs?: Components }
  for (const [name, definition] of Object.entries($defs)) named[name] = withoutId(definition)
  return properties?.it ?? {}
}

/** Everything of `node` but its description and its example gives way. */
function replaceBy(node: Adaptable, other: JsonSchema): void {
  const { description, example } = node
  for (const key of Object.keys(node)) Reflect.deleteProperty(node, key)
  Object.assign(node, other, description !== undefined && { description }, example !== undefined && { example })
}

function withoutNull(choices: readonly JsonSchema[]): JsonSchema {
  const rest = choices.filter(({ type }) => type !== 'null')
  return rest.length === 1 && rest[0] !== undefined ? rest[0] : { anyOf: rest }
}

/** Leaves out what says nothing: the range of safe integers, the spelling of a date by pattern, that names are texts. */
function tidy(node: Adaptable): void {
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
