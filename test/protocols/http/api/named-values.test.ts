/** What has a name in the OpenAPI document has it there only: the console generates its constants from it. */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import type { JsonSchema } from '../../../../protocols/http/api/json-schema.js'
import { openApiDocument } from '../../../../protocols/http/api/openapi.js'
import { documentedEndpoints } from '../../../../protocols/http/endpoints.js'
import { protocols } from '../../../../protocols/index.js'
import { permissionBits } from '../../../../src/accounts/principal.js'

const document = openApiDocument(documentedEndpoints)
const { schemas } = document.components

/** The tables of the document, by the names of their components: each name with its value. */
const tables = new Map(
  Object.entries(schemas).flatMap(([id, schema]) => {
    const { enum: values = [], 'x-enum-varnames': names, 'x-bits': bits } = schema
    if (bits !== undefined) return [[id, new Map<string, unknown>(Object.entries(bits))] as const]
    return names === undefined ? [] : [[id, new Map(names.map((name, index) => [name, values[index]]))] as const]
  }),
)

/** All schemas in a part of the document, by the keys on the way to them. */
function schemasIn(part: unknown, way: readonly string[] = []): readonly (readonly [string, JsonSchema])[] {
  if (typeof part !== 'object' || part === null) return []
  const inner = Object.entries(part).flatMap(([key, value]) => schemasIn(value, [...way, key]))
  return 'enum' in part ? [[way.join(' '), part as JsonSchema], ...inner] : inner
}

void t.test('every number that stands for something has a name', async (t) => {
  t.strictSame(
    [...tables.keys()],
    [
      'EventKind',
      'EventResult',
      'FileType',
      'Permissions',
      'Right',
      'Role',
      'SettingFlag',
      'SettingGroup',
      'ShareMode',
      'ShareState',
      'TaskKind',
      'TaskState',
    ],
  )
  for (const [id, table] of tables) {
    t.equal(new Set(table.values()).size, table.size, `${id} has a value for each name`)
    t.notOk([...table.values()].includes(undefined), id)
  }
  t.strictSame(tables.get('Permissions'), new Map(Object.entries(permissionBits)))
  const unnamed = schemasIn(document).filter(
    ([way, { type, 'x-enum-varnames': names }]) =>
      type === 'integer' && names === undefined && !way.endsWith('properties code'),
  )
  t.strictSame(
    unnamed.map(([way]) => way),
    [],
  )
})

/** What looks like a copy of one of the tables in the text of a source file. */
function copiesIn(text: string): readonly string[] {
  const found: string[] = []
  for (const [id, table] of tables) {
    for (const [name, value] of table) {
      if (typeof value !== 'number') continue
      const bit = value > 0 && Number.isInteger(Math.log2(value)) ? `|1 << ${Math.log2(value)}` : ''
      const pattern = new RegExp(`\\b${name}(?:${id}\\w*)? *[:=] *(?:${value}${bit})\\b(?! *<<)`, 'gi')
      for (const [match] of text.matchAll(pattern)) found.push(`${id}: ${match}`)
    }
  }
  const lists = [...tables.values()].map((table) => [...table.keys()])
  for (const [list] of text.matchAll(/\[[^[\]]*\]/g)) {
    const strings = [...list.matchAll(/'([^']*)'/g)].map(([, string = '']) => string)
    const isCopy = (names: readonly string[]) => names.length > 2 && names.every((name) => strings.includes(name))
    if ([...lists, serverNames].some(isCopy)) found.push(list)
  }
  return found
}

const paths = [
  ...Object.keys(document.paths),
  ...protocols.map((protocol) => ('path' in protocol ? protocol.path : '')),
]
const serverNames = [...new Set(paths.map((path) => path.split('/')[1] ?? ''))].filter((name) => name !== '')

void t.test('the console has no copy of what the document tells', async (t) => {
  const files = readdirSync('web', { recursive: true, encoding: 'utf8' }).filter(
    (name) => /\.tsx?$/.test(name) && name !== 'api/schema.ts',
  )
  t.ok(files.length > 100, 'the files were found')
  for (const name of files) t.strictSame(copiesIn(readFileSync(join('web', name), 'utf8')), [], name)
})

void t.test('copies are found: tables, single numbers, bits, and lists', async (t) => {
  for (const copy of [
    'const states = { pending: 0, running: 1 }',
    'const guestRole = 1',
    'const bits = { sftpRead: 1 << 10 }',
    "const kinds = ['upload', 'copy', 'move', 'offline_download', 'offline_download_transfer'] as const",
    `new Set([${serverNames.map((name) => `'${name}'`).join(', ')}])`,
  ])
    t.ok(copiesIn(copy).length > 0, copy)
})
