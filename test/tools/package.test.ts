/** What packages contain that is made from the commands and the configuration, and that archives are reproducible. */
import { execFile } from 'node:child_process'
import { mkdir, readFile, symlink, utimes, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { protocols } from '../../protocols/index.js'
import { createProgram } from '../../src/cli/program.js'
import { configFileSchema } from '../../src/installation/config.js'
import { normalize, writeArchive } from '../../tools/package/archive.js'
import { commandNodes } from '../../tools/package/command-tree.js'
import { completions } from '../../tools/package/completions.js'
import { manualPages } from '../../tools/package/manual.js'
import { lacks } from '../programs.js'

const run = promisify(execFile)
const nodes = commandNodes(createProgram())
const texts = completions(nodes)
const bashText = texts.get('usr/share/bash-completion/completions/tidegate') ?? ''

void t.test('bash completes commands, options, folders and files', async (t) => {
  const folder = t.testdir({ completions: bashText, here: { sub: {}, file: '' } })
  const completed = async (...words: readonly string[]) => {
    const program = `source "$0"; COMP_WORDS=(tidegate "$@"); COMP_CWORD=$#; _tidegate 2>/dev/null; printf '%s\\n' "\${COMPREPLY[@]}"`
    const { stdout } = await run('bash', ['-c', program, join(folder, 'completions'), ...words], {
      cwd: join(folder, 'here'),
    })
    return stdout.split('\n').filter((line) => line !== '')
  }
  t.same(await completed('stor'), ['storage', 'store'])
  t.same((await completed('user', '')).slice(0, 2), ['add', 'edit'])
  t.same(await completed('user', 'add', 'ann', '--base'), ['--base-path'])
  t.same(await completed('--json', 'user', 'reset'), ['reset-2fa'], 'options before the command')
  t.same(await completed('check', '--data', ''), ['sub'], 'a folder')
  t.same((await completed('check', '--config', '')).sort(), ['file', 'sub'], 'a file')
  t.same(await completed('check', '--store', ''), [], 'a value that is neither')
})

for (const [shell, path] of [
  ['zsh', 'usr/share/zsh/vendor-completions/_tidegate'],
  ['fish', 'usr/share/fish/vendor_completions.d/tidegate.fish'],
] as const) {
  void t.test(`${shell} accepts its completions`, { skip: lacks(shell) }, async (t) => {
    const folder = t.testdir({ completions: texts.get(path) ?? '' })
    await run(shell, ['-n', join(folder, 'completions')])
  })
}

void t.test(
  'the manual pages name every command, option and key, and nothing in them is a request by accident',
  async (t) => {
    const schema = configFileSchema(protocols)
    const pages = manualPages(nodes, schema, { version: '1.2.3', date: '2026-01-02' })
    const [commands = '', configuration = ''] = pages.values()
    const visible = (page: string) => page.replaceAll('\\-', '-').replaceAll('\\e', '\\')
    for (const usage of ['serve', 'restore <file>', 'storage add <mount-path> <driver>', 'backup <file>']) {
      t.ok(visible(commands).includes(`\n.SS tidegate ${usage}\n`), usage)
    }
    for (const { path, options, commands: below } of nodes) {
      if (below.length > 0) continue
      t.match(visible(commands), new RegExp(`^\\.SS tidegate ${path.join(' ')}( [<[].*)?$`, 'm'))
      for (const { usage } of options) t.ok(visible(commands).includes(`.B ${usage}\n`), usage)
    }
    const { properties } = JSON.parse(schema) as { readonly properties: object }
    for (const key of Object.keys(properties)) {
      if (key !== '$schema') t.match(visible(configuration), `.B ${key}\n`)
    }
    for (const page of pages.values()) {
      const requests = new Set(Array.from(page.matchAll(/^[.'].*/gm), ([line]) => line.split(' ', 1).join('')))
      t.same(
        [...requests].filter((request) => !['.TH', '.SH', '.SS', '.TP', '.B', '.I', '.BR'].includes(request)),
        [],
      )
    }
  },
)

void t.test('an archive has the same bytes, whatever the times and permissions of its files', async (t) => {
  const archives: Buffer[] = []
  for (const [name, mode, time] of [
    ['one', 0o600, 1000],
    ['two', 0o664, 2000],
  ] as const) {
    const folder = join(t.testdir(), name)
    await mkdir(join(folder, 'program', 'below'), { recursive: true })
    // In another order each time.
    for (const file of name === 'one' ? ['b', 'a'] : ['a', 'b']) {
      await writeFile(join(folder, 'program', 'below', file), file, { mode })
      await utimes(join(folder, 'program', 'below', file), time, time)
    }
    await symlink('below/a', join(folder, 'program', 'link'))
    await normalize(join(folder, 'program'), 1_700_000_000)
    await writeArchive(join(folder, 'archive.tar.gz'), join(folder, 'program'))
    archives.push(await readFile(join(folder, 'archive.tar.gz')))
  }
  const [one, two] = archives
  t.ok(one?.equals(two ?? Buffer.of()))
})
