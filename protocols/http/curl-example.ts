/** A call of an operation by curl, to be copied into a shell. */
import type { JsonSchema } from './json-schema.js'
import type { Operation } from './openapi.js'

/** `fields`: of its body. Required fields, and those that have an example, are filled in. */
export function curlOf(
  method: string,
  path: string,
  operation: Operation,
  fields: JsonSchema | undefined,
  site: string,
): string {
  const { parameters = [], requestBody } = operation
  const shown = parameters.filter(({ required, schema }) => required || schema.examples !== undefined)
  const inPlace = (place: string) => shown.filter((parameter) => parameter.in === place)
  const query = inPlace('query').map(({ name, schema }) => `${name}=${encodeURIComponent(String(sample(schema)))}`)
  const filled = inPlace('path').reduce(
    (url, { name, schema }) => url.replace(`{${name}}`, String(sample(schema))),
    path,
  )
  const words: string[] = []
  const content = Object.keys(requestBody?.content ?? {})[0]
  const isUpload = content === 'application/octet-stream'
  // curl takes GET, POST and PUT by itself for no body, -d and -T.
  const named = !isUpload && (method === 'PUT' || (method === 'POST' && content === undefined)) ? ` -X ${method}` : ''
  words.push(`curl${named} ${quoted(site + filled + (query.length === 0 ? '' : `?${query.join('&')}`))}`)
  if (operation.security.length > 0) words.push('-H "Authorization: $TOKEN"')
  for (const { name, schema } of inPlace('header')) words.push(`-H ${quoted(`${name}: ${String(sample(schema))}`)}`)
  if (isUpload) words.push('-T file.txt')
  else if (content === 'multipart/form-data') words.push(`-F 'file=@file.txt'`)
  else if (content !== undefined) {
    words.push(`-H 'Content-Type: application/json'`, `-d ${quoted(JSON.stringify(sample(fields ?? {})))}`)
  }
  return words.join(' \\\n  ')
}

function sample(schema: JsonSchema): unknown {
  const { default: usual, enum: choices, examples, items, properties, required = [], type } = schema
  if (examples !== undefined) return examples[0]
  if (properties !== undefined) {
    const shown = Object.entries(properties).filter(([name, { examples: own }]) => required.includes(name) || own)
    return Object.fromEntries(shown.map(([name, property]) => [name, sample(property)]))
  }
  if (usual !== undefined) return usual
  if (choices !== undefined) return choices[0]
  if (type === 'array') return items === undefined ? [] : [sample(items)]
  if (type === 'integer' || type === 'number') return 1
  if (type === 'boolean') return true
  return type === 'object' ? {} : '…'
}

/** For a POSIX shell. */
function quoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`
}
