/** The texts of the console, and their formats, without a browser. */
import { readdirSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import t from 'tap'
import ts from 'typescript'
import { errorNames } from '../../protocols/http/api/errors.js'
import { consoleModule, textsIn, type Settings } from './console-modules.js'

const languages = readdirSync('web/texts', { withFileTypes: true })
  .filter((entry) => entry.isDirectory())
  .map(({ name }) => name)
const others = languages.filter((language) => language !== 'en')

/** What is written alike in every language: names of products, protocols and formats, and what has no words. */
const alike = new RegExp(
  `^[\\W\\d]*(?:(?:${[
    ...['Tidegate', 'HTTP', 'WebDAV', 'SFTP', 'LDAP', 'Webhook', 'URL', 'Node\\.js'],
    ...['OpenList', 'AList', 'File Browser', 'Quantum', 'GitHub', 'Google', 'Microsoft Entra ID', 'Casdoor'],
  ].join('|')})[\\W\\d]*)*$`,
)

void t.test('each language has every text, and has translated it', async (t) => {
  t.ok(others.includes('zh-CN'), 'the languages were found')
  const english = await textsIn('en')
  t.ok(english.size > 900, 'the texts were found')
  for (const language of others) {
    const texts = await textsIn(language)
    t.strictSame([...texts.keys()].sort(), [...english.keys()].sort(), `${language} has the texts of English`)
    const same = [...texts].filter(([place, text]) => text === english.get(place) && !alike.test(text))
    t.strictSame(same, [['.profile.recoveryCodesFile', 'tidegate-recovery-codes.txt']], `${language} is translated`)
    t.strictSame(
      [...texts].filter(([, text]) => text.trim() === ''),
      [],
      `${language} has no empty text`,
    )
  }
})

void t.test('a text that is missing does not compile, and neither does one too much', (t) => {
  const folder = 'web/texts/zh-CN'
  const changes: Readonly<Record<string, (source: string) => string>> = {
    'files.ts': (source) => source,
    'search.ts': (source) => source.replace(/^ +turnOn: .*$/m, ''),
    'tasks.ts': (source) => source.replace(/^ +clear: /m, "more: 'x', $&"),
  }
  const host = ts.createCompilerHost({})
  const read = host.readFile.bind(host)
  host.readFile = (name) => (name.includes(folder) && changes[basename(name)]?.(read(name) ?? '')) || read(name)
  const files = Object.keys(changes).map((name) => join(folder, name))
  const { options } = ts.parseJsonConfigFileContent(ts.readConfigFile('web/tsconfig.json', read).config, ts.sys, 'web')
  const program = ts.createProgram(files, { ...options, incremental: false }, host)
  const faults = files.map((file) =>
    program
      .getSemanticDiagnostics(program.getSourceFile(file))
      .map(({ messageText }) => ts.flattenDiagnosticMessageText(messageText, ' ')),
  )
  t.match(faults, [[], [/'turnOn' is missing/], [/'more' does not exist/]])
  t.strictSame(
    faults.map(({ length }) => length),
    [0, 1, 1],
  )
  t.end()
})

void t.test('every name of a failure of the server has a text', async (t) => {
  for (const language of languages) {
    const texts = await textsIn(language)
    const names = [...texts.keys()].flatMap((place) => /^\.failures\.(\w+)$/.exec(place)?.[1] ?? [])
    t.strictSame(names.sort(), [...errorNames, 'unreachable'].sort(), language)
  }
})

void t.test(
  'the reason of a failure is shown where the name says too little, and nothing else of the server',
  async (t) => {
    const shown = async (language: string, error: string | undefined, message: string) => {
      const { text } = (await consoleModule(
        `import { ApiError } from './api/client.ts'
       import { messageOf } from './components/error-text.ts'
       import { withTexts } from './texts/texts.ts'
       export const text = withTexts(Promise.resolve()).then(() => messageOf(new ApiError(
         ${JSON.stringify(message)}, ${JSON.stringify(error)})))`,
        { languages: [language] },
      )) as { readonly text: Promise<string> }
      return text
    }
    const created = 'add storage: failed init storage: the disk is on strike'
    t.equal(await shown('en', 'not_found', 'object not found'), 'There is no such file or folder.')
    t.equal(await shown('zh-CN', 'not_found', 'object not found'), '文件或文件夹不存在。')
    t.match(await shown('en', 'storage_created', created), /does not start: the disk is on strike\./)
    t.match(
      await shown('en', 'storage_failed', 'storage status: the storage /a does not work: no: answer: storage not init'),
      /: no: answer$/,
    )
    t.match(await shown('en', 'storage_failed', 'failed init storage: root: no'), /does not work: root: no$/)
    t.match(await shown('zh-CN', 'setting_refused', 'failed to execute hook on x: no number'), /：no number$/)
    t.match(await shown('en', 'of_a_later_version', 'new'), /does not understand: new$/)
    t.match(await shown('en', undefined, 'Bad Gateway'), /does not understand: Bad Gateway$/)
  },
)

void t.test('the language is the one chosen, else the first of the browser that there is', async (t) => {
  const cases: readonly (readonly [settings: Settings, language: string, locale: string])[] = [
    [{ languages: ['en-US'] }, 'en', 'en-US'],
    [{ languages: ['en-GB', 'zh-CN'] }, 'en', 'en-GB'],
    [{ languages: ['zh'] }, 'zh-CN', 'zh'],
    [{ languages: ['zh-SG', 'en'] }, 'zh-CN', 'zh-SG'],
    [{ languages: ['zh-TW', 'en'] }, 'zh-CN', 'zh-CN'],
    [{ languages: ['tlh', 'zh-Hans-CN', 'en'] }, 'zh-CN', 'zh-Hans-CN'],
    [{ languages: ['tlh'] }, 'en', 'en'],
    [{ languages: [] }, 'en', 'en'],
    [{ languages: ['no tag', 'zh-CN'] }, 'zh-CN', 'zh-CN'],
    [{ languages: ['zh-CN', 'en-GB'], chosen: 'en' }, 'en', 'en-GB'],
    [{ languages: ['en-GB'], chosen: 'zh-CN' }, 'zh-CN', 'zh-CN'],
    [{ languages: ['en-GB'], chosen: 'gone' }, 'en', 'en-GB'],
  ]
  for (const [settings, language, locale] of cases) {
    const exported = (await consoleModule(
      `import { languageInUse } from './texts/language.ts'
       export const { language, locale } = languageInUse.value`,
      settings,
    )) as object
    t.match(exported, { language, locale }, JSON.stringify(settings))
  }
})

void t.test('texts in 简体中文 have its punctuation, and a space beside Latin letters and digits', async (t) => {
  const han = String.raw`\p{Script=Han}`
  const faulty = new RegExp(`${han}[,:;!?()A-Za-z0-9]|[,:;!?()] ?${han}|[A-Za-z0-9]${han}`, 'u')
  const faults = ['已启用, 3 个', '文件 (只读)', '共3 个', '用WebDAV', '出错:存储']
  t.ok(
    faults.every((text) => faulty.test(text)),
    'faults are found',
  )
  const texts = await textsIn('zh-CN')
  t.strictSame(
    [...texts].filter(([, text]) => faulty.test(text)),
    [],
  )
  const { joined } = (await consoleModule(
    `import { originText } from './components/event-text.ts'
     import { browserOf } from './profile/browser-name.ts'
     import { textsOf, withTexts } from './texts/texts.ts'
     const texts = textsOf('common')
     export const joined = withTexts(Promise.resolve()).then(() => [
       originText({ address: '192.0.2.7', protocol: 'webdav' }), originText({ address: null, protocol: 'task' }),
       browserOf('Mozilla/5.0 (X11; Linux x86_64) Firefox/140.0'), texts.labelled('/a', '只读'),
       texts.withNote('WebDAV', '只读'), texts.andMore(['a', 'b'], 0), texts.andMore(['a', 'b'], 3),
       texts.andMorePeople(['ann'], 2),
     ])`,
    { languages: ['zh-CN'] },
  )) as { readonly joined: Promise<readonly string[]> }
  t.strictSame(
    [...(await joined)],
    [
      '192.0.2.7，WebDAV',
      '任务',
      'Firefox，Linux',
      '/a：只读',
      'WebDAV（只读）',
      'a、b',
      'a、b 等 5 项',
      'ann 等 3 人',
    ],
  )
})

void t.test('the words for translators are those of the texts', async (t) => {
  const [, table = ''] = (await readFile('docs/languages.md', 'utf8')).split('## Words')
  const words = [...table.matchAll(/^\| [a-z].*? +\| (.*?) +\|$/gm)].map(([, word = '']) => word)
  t.ok(words.length > 40, 'the words were found')
  const texts = [...(await textsIn('zh-CN')).values()]
  t.strictSame(
    words.filter((word) => !texts.some((text) => text.includes(word))),
    [],
  )
})

void t.test('numbers, sizes, times, durations and lists have the form of the language', async (t) => {
  const formatted = async (language: string) => {
    const { results } = (await consoleModule(
      `import * as f from './texts/format.ts'
       const forms = { one: '# file', other: '# files' }
       export const results = [
         f.number(12345.5), f.percent(0.5), f.formatSize(0), f.formatSize(1), f.formatSize(1500), f.formatSpeed(2e6),
         f.formatSize(3e18), f.formatUtcDay('2026-01-02T03:04:05Z'), f.formatTime('0001-01-01T00:00:00Z'),
         f.formatTime('never'), f.formatDuration(0), f.formatDuration(59.2), f.formatDuration(5400),
         f.formatDuration(3601), f.list(['a', '', undefined, false, 'b']), f.plural(1, forms), f.plural(1200, forms),
         ['b10', 'b9', 'a'].sort(f.compareNames).join(),
       ].join('; ')`,
      { languages: [language] },
    )) as { readonly results: string }
    // Some versions of CLDR have other spaces.
    return results.replaceAll(/[\u00a0\u202f]/g, ' ')
  }
  t.equal(
    await formatted('en-US'),
    '12,345.5; 50%; 0 bytes; 1 byte; 1.5 kB; 2 MB/s; 3,000 PB; Jan 2, 2026; ; ; 0 seconds; 1 minute; ' +
      '1 hour 30 minutes; 1 hour; a, b; 1 file; 1,200 files; a,b9,b10',
  )
  t.equal(
    await formatted('zh-CN'),
    '12,345.5; 50%; 0字节; 1字节; 1.5 kB; 2 MB/秒; 3,000 PB; 2026年1月2日; ; ; 0秒钟; 1分钟; ' +
      '1小时30分钟; 1小时; a、b; 1 files; 1,200 files; a,b9,b10',
  )
})
