/** Pages of docs/ that must agree with the source. */
import { existsSync } from 'node:fs'
import { readdir, readFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import t from 'tap'
import { driverTypes } from '../../drivers/index.js'
import { permissionBits } from '../../src/accounts/principal.js'
import { toErrorResponse } from '../../protocols/http/api/errors.js'
import { endpoints } from '../../protocols/http/endpoints.js'
import { admissionDetails } from '../../protocols/http/routes/auth.js'
import { protocols } from '../../protocols/index.js'
import { errorResponses as sftpResponses } from '../../protocols/sftp/errors.js'
import { statusCode } from '../../protocols/sftp/wire.js'
import { errorResponses as webdavResponses } from '../../protocols/webdav/errors.js'
import { errorCodes, GatewayError } from '../../src/base/errors.js'
import { configFileSchema, listenAddresses } from '../../src/installation/config.js'
import { allSettings, isRead, settingsPage, settingsPagePath, sources } from './settings-page.js'

void t.test('docs/settings.md is what `npm run docs` writes', async (t) => {
  t.equal(await readFile(settingsPagePath, 'utf8'), await settingsPage())
})

void t.test('the settings in force are those that a source reads', (t) => {
  const texts = sources()
  for (const { key, inForce } of allSettings) t.equal(isRead(key, texts), inForce, key)
  t.end()
})

void t.test('docs/audit.md says of each refusal of a sign-in what was wrong', async (t) => {
  const page = await readFile('docs/audit.md', 'utf8')
  const ofOthers = ['passkey_refused', 'identity_unknown', 'identity_refused', 'provider_failed', 'directory_silent']
  for (const detail of [...admissionDetails, ...ofOthers]) t.match(page, new RegExp(`^\\|.*\`${detail}\`.* \\|`, 'm'))
})

void t.test('every link between pages leads to an existing file and heading', async (t) => {
  for (const page of await pages()) {
    const text = await readFile(page, 'utf8')
    for (const [, link = ''] of text.matchAll(/(?:\]\(|src(?:set)?=")([^)"\s]+)[)"]/g)) {
      if (/^[a-z]+:/.test(link)) continue
      const [file = '', heading] = link.split('#')
      const target = file === '' ? page : join(dirname(page), file)
      if (!existsSync(target)) t.fail(`${page} links to ${link}`)
      else if (heading !== undefined) {
        t.ok(headings(await readFile(target, 'utf8')).includes(heading), `${page} links to ${link}`)
      }
    }
  }
})

void t.test('every source file that a page names exists in the folder that the page names', async (t) => {
  const folders = ['src', 'protocols', 'drivers', 'test', 'bench', 'web']
  const listed = await Promise.all(
    folders.map(async (folder) => (await readdir(folder, { recursive: true })).map((name) => join(folder, name))),
  )
  const files = listed.flat()
  let found = 0
  for (const page of await pages()) {
    // The change log may name files that no longer exist.
    if (page === 'CHANGELOG.md') continue
    let folder = ''
    for (const line of (await readFile(page, 'utf8')).split('\n')) {
      // The folder of a list of files applies until the next line of text.
      if (/^\w|^#/.test(line)) folder = /^In `([\w/]+\/)`/.exec(line)?.[1] ?? ''
      const isOfFolder = folder !== '' && line.startsWith('- ')
      for (const [, name = ''] of line.matchAll(/`([\w./-]+\.ts)`/g)) {
        found += 1
        const isThere = isOfFolder ? existsSync(folder + name) : files.some((file) => `/${file}`.endsWith(`/${name}`))
        t.ok(isThere, `${page}: ${isOfFolder ? folder : ''}${name}`)
      }
    }
  }
  t.ok(found > 100, 'the names were found')
})

/** The names in backticks in the first cell of each row of the first table after a heading, and the text of its row. */
async function tableAfter(page: string, heading: string): Promise<ReadonlyMap<string, string>> {
  const [, section = ''] = (await readFile(page, 'utf8')).split(`\n## ${heading}\n`)
  const [table = ''] = /(?:^\|.*\n)+/m.exec(section) ?? []
  return new Map(
    table.split('\n').flatMap((row) => {
      const names = row.split('|')[1]?.matchAll(/`([^`]+)`/g) ?? []
      return Array.from(names, ([, name = '']) => [name, row] as const)
    }),
  )
}

async function foldersIn(folder: string): Promise<readonly string[]> {
  const entries = await readdir(folder, { withFileTypes: true })
  return entries.filter((entry) => entry.isDirectory()).map(({ name }) => `${name}/`)
}

void t.test('docs/architecture.md names each folder and each file at the top of the source', async (t) => {
  const rows = await tableAfter('docs/architecture.md', 'Folders')
  const files = (await readdir('src')).filter((name) => name.endsWith('.ts'))
  for (const name of [...(await foldersIn('src')), ...files]) t.ok(rows.has(`src/${name}`), `src/${name}`)
  for (const name of rows.keys()) t.ok(existsSync(name), name)
  for (const [folder, row] of rows) {
    // Drivers and protocols are listed elsewhere, and the folders of the console in the test of imports.
    if (!/^src\/.*\/$|\/(?:lib|http)\/$/.test(folder)) continue
    const named = Array.from(row.matchAll(/`([\w-]+\/)`/g), ([, name]) => name)
    t.same(named.sort(), [...(await foldersIn(folder))].sort(), folder)
  }
})

void t.test('CONTRIBUTING.md names each folder of the checkout', async (t) => {
  const rows = await tableAfter('CONTRIBUTING.md', 'Where things live')
  const ignored = (await readFile('.gitignore', 'utf8')).split('\n').map((line) => line.replace(/\/?$/, '/'))
  const folders = (await foldersIn('.')).filter((name) => !name.startsWith('.') && !ignored.includes(name))
  t.same(
    [...rows.keys()].filter((name) => name.split('/').length === 2 && existsSync(name)).sort(),
    [...folders].sort(),
  )
})

/** The paths in the first column of the table of endpoints: a name without a folder is beside the one before it. */
function pathsOf(table: string): readonly RegExp[] {
  const paths: RegExp[] = []
  for (const [, cell = ''] of table.matchAll(/^\| ([^|]+)\|/gm)) {
    let folder = ''
    for (const [, code = ''] of cell.matchAll(/`(?:[A-Z]+ )?(?:…\/)?([/\w][^`\s]*)`/g)) {
      const path = code.startsWith('/') ? code : folder + code
      if (code.startsWith('/')) folder = code.slice(0, code.lastIndexOf('/') + 1)
      paths.push(new RegExp(`^${path.replace(/[.]/g, '\\.').replace('KIND', '\\{kind\\}').replaceAll('…', '.*')}$`))
    }
  }
  return paths
}

void t.test('docs/protocols.md lists every endpoint', async (t) => {
  const [, table = ''] = (await readFile('docs/protocols.md', 'utf8')).split('This is the overview:')
  const paths = pathsOf(table.slice(0, table.indexOf('Slashes that follow')))
  for (const { path } of endpoints)
    t.ok(
      paths.some((each) => each.test(path)),
      path,
    )
})

void t.test('docs/protocols.md has a section for each protocol, and the status of each error', async (t) => {
  const text = await readFile('docs/protocols.md', 'utf8')
  const sections = headings(text)
  for (const { name } of protocols) t.ok(sections.includes(name), `docs/protocols.md has a section for ${name}`)
  const [, table = ''] = text.split('\n## Errors\n')
  const rows = [...table.matchAll(/^\| `(\w+)` +\| (\d+), (\d+) \| (\d+) +\| (\w+) +\|$/gm)].map((row) => row.slice(1))
  const expected = errorCodes.map((code) => {
    const http = toErrorResponse(new GatewayError(code))
    return [code, http.code, http.status, webdavResponses[code].status, sftpName(sftpResponses[code].status)].map(
      String,
    )
  })
  t.same(rows, expected)
})

/** The name of a status in the specification, without `SSH_FX_`. */
function sftpName(status: number): string {
  const [name = ''] = Object.entries(statusCode).find(([, code]) => code === status) ?? []
  return `${name === 'unsupported' ? 'OP_' : ''}${name.replace(/[A-Z]/g, '_$&').toUpperCase()}`
}

void t.test(
  'docs/configuration.md has a row for every key, and for the flag and the variable of each address',
  async (t) => {
    const text = await readFile('docs/configuration.md', 'utf8')
    const named = [...text.matchAll(/^\| ((?:`\w+`(?:, )?)+) +\|/gm)].flatMap(
      ([, cell = '']) => cell.match(/\w+/g) ?? [],
    )
    const { properties } = JSON.parse(configFileSchema(protocols)) as { readonly properties: object }
    for (const key of Object.keys(properties))
      if (key !== '$schema') t.ok(named.includes(key), `a row for the key ${key}`)
    for (const name of listenAddresses(protocols).keys()) {
      const row = new RegExp(`^\\|[^|]*\\| \`--${name} HOST:PORT\` *\\| \`TIDEGATE_${name.toUpperCase()}\` *\\|`, 'm')
      t.match(text, row, `a row for --${name}`)
    }
  },
)

void t.test('docs/users.md lists every permission', async (t) => {
  const text = await readFile('docs/users.md', 'utf8')
  const rows = [...text.matchAll(/^\| ((?:`[a-z-]+`(?:, )?)+) +\| (\d+)(?:[, –]+(\d+))? +\|/gm)]
  const listed = rows.flatMap(([, names = '', first]) =>
    [...names.matchAll(/[a-z-]+/g)].map(([name], index) => [name, 1 << (Number(first) + index)]),
  )
  const permissions = Object.entries(permissionBits).map(([name, bit]) => [
    name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`),
    bit,
  ])
  t.same(listed, permissions)
})

void t.test('the API examples call existing endpoints with the right method', async (t) => {
  let found = 0
  for (const page of await pages()) {
    const text = await readFile(page, 'utf8')
    for (const [, block = ''] of text.matchAll(/^```sh\n(.*?)^```/gms)) {
      for (const command of block.replaceAll('\\\n', ' ').split(/(?=\bcurl )/)) {
        const path = /^curl .*?:5244(\/api\/[\w/]+)/.exec(command)?.[1]
        if (path === undefined) continue
        found += 1
        t.ok(
          endpoints.some((each) => ['any', methodOf(command)].includes(each.method) && patternOf(each.path).test(path)),
          `${page}: ${methodOf(command)} ${path}`,
        )
      }
    }
  }
  t.ok(found > 10, 'the examples were found')
})

void t.test('the table of docs/drivers.md has one row for every driver', async (t) => {
  const [table = ''] = (await readFile('docs/drivers.md', 'utf8')).split('# Adding a storage')
  const rows = [...table.matchAll(/^\| \[?`([\w ]+)`/gm)].map(([, name]) => name)
  t.strictSame(rows.sort(), driverTypes.map(({ name }) => name).sort())
})

void t.test('docs/decisions/README.md names every page of its folder', async (t) => {
  const index = await readFile('docs/decisions/README.md', 'utf8')
  for (const name of await readdir('docs/decisions')) {
    if (name !== 'README.md') t.match(index, `(${name})`)
  }
})

void t.test('every decision says what was given up', async (t) => {
  const names = (await readdir('docs/decisions')).filter((name) => name !== 'README.md')
  t.ok(names.length > 40, 'the pages were found')
  for (const name of names) {
    // A page with several questions says it below each.
    t.match(
      await readFile(join('docs/decisions', name), 'utf8'),
      /^(?:## What we gave up$|\*\*What we gave up\.\*\* )/m,
      name,
    )
  }
})

void t.test('the words of the glossary are sorted', async (t) => {
  const text = await readFile('docs/glossary.md', 'utf8')
  const words = Array.from(text.matchAll(/^- \*\*([^*]+)\*\*/gm), ([, word = '']) => word.toLowerCase())
  t.ok(words.length > 20, 'the words were found')
  t.same(words, [...words].sort())
})

async function pages(): Promise<readonly string[]> {
  const names = await readdir('docs', { recursive: true })
  const ofDocs = names.filter((name) => name.endsWith('.md')).map((name) => join('docs', name))
  return ['README.md', 'CONTRIBUTING.md', 'CHANGELOG.md', ...ofDocs]
}

/** Anchors of the headings, as links name them: in lower case, without punctuation, words joined by hyphens. */
function headings(text: string): readonly string[] {
  const prose = text.replace(/^```.*?^```/gms, '')
  return [...prose.matchAll(/^#+ (.*)$/gm)].map(([, title = '']) =>
    title
      .toLowerCase()
      .replace(/[^\p{L}\p{N} _-]/gu, '')
      .replaceAll(' ', '-'),
  )
}

/** The method of a curl command, in lower case. */
function methodOf(command: string): string {
  const named = /\s-X (\w+)/.exec(command)?.[1]
  if (named !== undefined) return named.toLowerCase()
  if (/\s-T /.test(command)) return 'put'
  return /\s-d /.test(command) ? 'post' : 'get'
}

function patternOf(path: string): RegExp {
  return new RegExp(`^${path.replaceAll(/\{\w+\}/g, '[^/]+')}$`)
}
