/** Example curl commands for the API reference. */
import type { JsonSchema } from './json-schema.js'
import type { OpenApiOperation } from './openapi.js'

/**
 * A curl command that calls the operation, quoted for a POSIX shell. `fields` is the schema of the body, `site` the
 * base URL. Includes required parameters and fields, and those with an example.
 */
export function curlExample(
  method: string,
  path: string,
  operation: OpenApiOperation,
  fields: JsonSchema | undefined,
  site: string,
): string {
  const { parameters = [], requestBody } = operation
  const shown = parameters.filter(({ required, schema }) => required || schema.examples !== undefined)
  const parametersIn = (location: string) => shown.filter((parameter) => parameter.in === location)
  const query = parametersIn('query').map(({ name, schema }) => `${name}=${encodeURIComponent(String(sample(schema)))}`)
  const resolvedPath = parametersIn('path').reduce(
    (url, { name, schema }) => url.replace(`{${name}}`, String(sample(schema))),
    path,
  )
  const lines: string[] = []
  const content = Object.keys(requestBody?.content ?? {})[0]
  const isUpload = content === 'application/octet-stream'
  // curl defaults to GET without a body, POST with -d or -F, and PUT with -T.
  const methodOption =
    !isUpload && (method === 'PUT' || (method === 'POST' && content === undefined)) ? ` -X ${method}` : ''
  lines.push(`curl${methodOption} ${quoted(site + resolvedPath + (query.length === 0 ? '' : `?${query.join('&')}`))}`)
  if (operation.security.length > 0) lines.push('-H "Authorization: $TOKEN"')
  for (const { name, schema } of parametersIn('header'))
    lines.push(`-H ${quoted(`${name}: ${String(sample(schema))}`)}`)
  if (isUpload) lines.push('-T file.txt')
  else if (content === 'multipart/form-data') lines.push(`-F 'file=@file.txt'`)
  else if (content !== undefined) {
    lines.push(`-H 'Content-Type: application/json'`, `-d ${quoted(JSON.stringify(sample(fields ?? {})))}`)
  }
  return lines.join(' \\\n  ')
}

function sample(schema: JsonSchema): unknown {
  const { default: defaultValue, enum: choices, examples, items, properties, required = [], type } = schema
  if (examples !== undefined) return examples[0]
  if (properties !== undefined) {
    const shown = Object.entries(properties).filter(([name, property]) => required.includes(name) || property.examples)
    return Object.fromEntries(shown.map(([name, property]) => [name, sample(property)]))
  }
  if (defaultValue !== undefined) return defaultValue
  if (choices !== undefined) return choices[0]
  if (type === 'array') return items === undefined ? [] : [sample(items)]
  if (type === 'integer' || type === 'number') return 1
  if (type === 'boolean') return true
  return type === 'object' ? {} : '…'
}

/** The text in single quotes for a POSIX shell. */
function quoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`
}
