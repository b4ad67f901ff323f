/** The OpenAPI document as one HTML page, without scripts and without external resources. */
import { STATUS_CODES } from 'node:http'
import { forText } from './escape.js'
import type { JsonSchema } from './json-schema.js'
import type { OpenApiDocument, OpenApiOperation } from './openapi.js'

/** One operation of the API. */
interface Section {
  readonly path: string
  /** The method in upper case. */
  readonly method: string
  readonly operation: OpenApiOperation
}

/** The names of components that belong to one operation: its section shows them in place of references. */
const ownComponent = /.(?:Fields|Data|Success|Failure)$/

const style = `
:root { color-scheme: light dark; --line: #8884; --soft: #8881; --accent: #2a6fdb }
body { font: 16px/1.5 system-ui, sans-serif; margin: 0; display: grid; grid-template-columns: 18rem minmax(0, 1fr) }
nav { position: sticky; top: 0; height: 100vh; overflow: auto; padding: 1rem; box-sizing: border-box; border-right: 1px solid var(--line); font-size: 14px }
nav ul { list-style: none; padding: 0; margin: 0 0 1rem }
nav a { text-decoration: none; overflow-wrap: anywhere }
main { padding: 1rem 2rem 6rem; max-width: 60rem }
a { color: var(--accent) }
h2 { margin-top: 4rem; border-bottom: 1px solid var(--line) }
h3 { margin-top: 3rem; font-size: 1.1rem; overflow-wrap: anywhere }
h4 { margin: 1.2rem 0 .3rem }
code, pre { font: 14px/1.5 ui-monospace, monospace; background: var(--soft) }
code { padding: 0 .2em }
pre { padding: .8rem; overflow: auto }
table { border-collapse: collapse; width: 100%; font-size: 15px }
th, td { text-align: left; vertical-align: top; padding: .25rem .8rem .25rem 0; border-bottom: 1px solid var(--line) }
.method { color: var(--accent) }
@media (max-width: 50rem) { body { display: block } nav { position: static; height: auto; border: 0 } main { padding: 1rem } }
`

const accessTexts: Readonly<Record<OpenApiOperation['x-access'], string>> = {
  anybody: 'No authentication.',
  guest: 'For signed-in users, and for the guest if that account is enabled.',
  user: 'For signed-in users.',
  admin: 'For admins.',
}

export function docsPage(document: OpenApiDocument): string {
  const { info, servers, tags } = document
  const site = servers[0]?.url ?? ''
  const sections = sectionsOf(document)
  const groups = tags.map((tag) => ({
    ...tag,
    sections: sections.filter(({ operation }) => operation.tags.includes(tag.name)),
  }))
  const menu = groups.map(
    (group) => `<a href="#${anchor(group.name)}"><b>${forText(group.name)}</b></a>
<ul>${group.sections.map(({ operation, path }) => `<li><a href="#${operation.operationId}">${forText(path)}</a>`).join('\n')}</ul>`,
  )
  const body = groups.map(
    (group) => `<h2 id="${anchor(group.name)}">${forText(group.name)}</h2>
<p>${inline(group.description)}</p>
${group.sections.map((section) => sectionHtml(section, document, site)).join('\n')}`,
  )
  const schemas = Object.entries(document.components.schemas).filter(([name]) => !ownComponent.test(name))
  return `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${forText(info.title)}: the API</title>
<style>${style}</style>
<nav>
${menu.join('\n')}
<a href="#shapes"><b>Schemas</b></a>
</nav>
<main>
<h1>${forText(info.title)}: the API</h1>
${paragraphs(info.description)}
<p>OpenAPI 3.1 document: <a href="openapi.json">openapi.json</a>.</p>
${body.join('\n')}
<h2 id="shapes">Schemas</h2>
<p>What several responses share.</p>
${schemas.map(([name, schema]) => `<h3 id="${schemaAnchor(name)}">${forText(name)}</h3>\n${schemaHtml(schema)}`).join('\n')}
</main>
</html>
`
}

function sectionsOf({ paths }: OpenApiDocument): readonly Section[] {
  return Object.entries(paths).flatMap(([path, item]) =>
    Object.entries(item).map(([method, operation]) => ({ path, method: method.toUpperCase(), operation })),
  )
}

function sectionHtml({ path, method, operation }: Section, document: OpenApiDocument, site: string): string {
  const { description, operationId, summary } = operation
  const schema = bodySchema(operation, document)
  const parts = [
    `<h3 id="${operationId}"><span class="method">${method}</span> ${forText(path)}</h3>`,
    `<p>${[`${summary}.`, description ?? '', accessTexts[operation['x-access']]].map(inline).join(' ')}</p>`,
    parameterTable(operation),
    schema === undefined ? '' : `<h4>Fields</h4>\n${fieldTable(rows(schema))}`,
    operation.requestBody?.description === undefined ? '' : `<p>Body: ${inline(operation.requestBody.description)}</p>`,
    `<pre>${forText(curlExample(method, path, operation, schema, document, site))}</pre>`,
    operation['x-refusals'] === undefined
      ? responseTable(operation)
      : dataHtml(operation, document) + refusalTable(operation),
  ]
  return parts.filter((part) => part !== '').join('\n')
}

function parameterTable({ parameters = [] }: OpenApiOperation): string {
  if (parameters.length === 0) return ''
  const lines = parameters.map(({ name, in: location, required, schema, description = '' }) => [
    `<code>${forText(name)}</code>`,
    location,
    typeHtml(schema) + (required ? ', required' : ''),
    inline(description),
  ])
  return `<h4>Parameters</h4>\n${table(['name', 'in', 'type', ''], lines)}`
}

/** The schema of the body's fields. */
function bodySchema({ requestBody }: OpenApiOperation, document: OpenApiDocument): JsonSchema | undefined {
  const schema = requestBody?.content['application/json']?.schema ?? requestBody?.content['multipart/form-data']?.schema
  return schema && inPlace(schema, document)
}

/** The schema, with the components of the operation in place of references to them. */
function inPlace(schema: JsonSchema, document: OpenApiDocument): JsonSchema {
  const { $ref, anyOf } = schema
  if (anyOf !== undefined) return { ...schema, anyOf: anyOf.map((choice) => inPlace(choice, document)) }
  return ownComponent.test(referenced($ref ?? '')) ? componentOf(schema, document) : schema
}

/** The component that the schema refers to, else the schema. */
function componentOf(schema: JsonSchema, { components }: OpenApiDocument): JsonSchema {
  return components.schemas[referenced(schema.$ref ?? '')] ?? schema
}

function dataHtml({ responses }: OpenApiOperation, document: OpenApiDocument): string {
  const [success] = responses['200']?.content?.['application/json']?.schema?.oneOf ?? []
  const data = success && inPlace(success, document).properties?.data
  const schema = data && inPlace(data, document)
  if (schema === undefined || schema.type === 'null') return '<h4>Data</h4>\n<p><code>null</code></p>'
  return `<h4>Data</h4>\n${schemaHtml(schema)}`
}

/** The fields of an object, else the type. */
function schemaHtml(schema: JsonSchema): string {
  const fields = rows(schema)
  const note = `<p>${typeHtml(schema)}${schema.description === undefined ? '' : `. ${inline(schema.description)}`}</p>`
  return fields.length === 0 ? note : fieldTable(fields)
}

function refusalTable(operation: OpenApiOperation): string {
  const lines = (operation['x-refusals'] ?? []).map(({ code, text, error, when = '' }) => [
    String(code),
    `<code>${error}</code>`,
    `<code>${forText(text)}</code>`,
    inline(when),
  ])
  return `<details><summary>Errors</summary>\n${table(['code', 'error', 'message', 'when'], lines)}</details>`
}

function responseTable({ responses }: OpenApiOperation): string {
  const lines = Object.entries(responses).map(([status, { description, content = {} }]) => [
    `${status} ${STATUS_CODES[status] ?? ''}`,
    inline(description),
    Object.keys(content).map(forText).join(', '),
  ])
  return `<h4>Responses</h4>\n${table(['status', '', 'type'], lines)}`
}

type Row = readonly [name: string, schema: JsonSchema, required: boolean]

/** The fields of an object and of the objects nested in it, such as `content[].name`. Does not expand named schemas. */
function rows(schema: JsonSchema, prefix = ''): readonly Row[] {
  if (schema.items !== undefined) return rows(schema.items, `${prefix}[]`)
  if (schema.anyOf !== undefined) return schema.anyOf.flatMap((choice) => rows(choice, prefix))
  return Object.entries(schema.properties ?? {}).flatMap(([name, property]): readonly Row[] => {
    const path = prefix === '' ? name : `${prefix}.${name}`
    return [[path, property, schema.required?.includes(name) === true], ...rows(property, path)]
  })
}

function fieldTable(fields: readonly Row[]): string {
  const lines = fields.map(([name, schema, required]) => [
    `<code>${forText(name)}</code>`,
    typeHtml(schema) + (required ? '' : ', optional'),
    inline(schema.description ?? ''),
  ])
  return table(['name', 'type', ''], lines)
}

function typeHtml(schema: JsonSchema): string {
  const { $ref, additionalProperties, anyOf, const: only, enum: choices, items, type } = schema
  if ($ref !== undefined) {
    const name = referenced($ref)
    return `<a href="#${schemaAnchor(name)}">${forText(name)}</a>`
  }
  if (anyOf !== undefined) return anyOf.map(typeHtml).join(' or ')
  if (only !== undefined) return `<code>${forText(JSON.stringify(only))}</code>`
  if (choices !== undefined)
    return choices.map((choice) => `<code>${forText(JSON.stringify(choice))}</code>`).join(', ')
  if (items !== undefined) return `list of ${typeHtml(items)}`
  if (typeof additionalProperties === 'object') return `map of ${typeHtml(additionalProperties)}`
  const defaultText =
    schema.default === undefined ? '' : `, default <code>${forText(JSON.stringify(schema.default))}</code>`
  return forText([type].flat().join(' or ')) + defaultText
}

function table(heads: readonly string[], lines: readonly (readonly string[])[]): string {
  const head = heads.map((text) => `<th>${text}`).join('')
  return `<table><tr>${head}\n${lines.map((cells) => `<tr>${cells.map((cell) => `<td>${cell}`).join('')}`).join('\n')}\n</table>`
}

function paragraphs(text: string): string {
  return text
    .split('\n\n')
    .map((part) => `<p>${inline(part)}</p>`)
    .join('\n')
}

/** HTML of a text in which backticks mark code. */
function inline(text: string): string {
  return forText(text).replace(/`([^`]+)`/g, '<code>$1</code>')
}

function referenced(reference: string): string {
  return reference.slice(reference.lastIndexOf('/') + 1)
}

function anchor(name: string): string {
  return `tag-${name.toLowerCase().replace(/[^a-z0-9]+/g, '-')}`
}

function schemaAnchor(name: string): string {
  return `shape-${name}`
}

/**
 * A curl command that calls the operation, quoted for a POSIX shell. `fields` is the schema of the body, `site` the
 * base URL. Includes required parameters and fields, and those with an example.
 */
function curlExample(
  method: string,
  path: string,
  operation: OpenApiOperation,
  fields: JsonSchema | undefined,
  document: OpenApiDocument,
  site: string,
): string {
  const { parameters = [], requestBody } = operation
  const shown = parameters.filter(({ required, schema }) => required || schema.examples !== undefined)
  const parametersIn = (location: string) => shown.filter((parameter) => parameter.in === location)
  const query = parametersIn('query').map(({ name, schema }) => `${name}=${encodeURIComponent(String(sample(schema)))}`)
  const resolvedPath = parametersIn('path').reduce(
    (url, { name, schema }) => url.replace(`{${name}}`, String(sample(componentOf(schema, document)))),
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
