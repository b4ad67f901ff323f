/** Names of fetched files: where they are taken from, and how unsafe ones are changed. */
import t from 'tap'
import { checkName } from '../../src/base/path.js'
import { fileNameOf } from '../../src/offline-downloads/file-name.js'

const address = new URL('https://example.org/files/report%20of%20today.pdf?token=x#part')

void t.test('the name is taken from Content-Disposition, or else from the address', async (t) => {
  const cases: readonly (readonly [disposition: string | undefined, name: string])[] = [
    [undefined, 'report of today.pdf'],
    ['inline', 'report of today.pdf'],
    ['attachment; filename=plain.txt', 'plain.txt'],
    ['attachment; filename="two words.txt"', 'two words.txt'],
    ['attachment; filename="a \\"quoted\\" name.txt"', 'a "quoted" name.txt'],
    ['attachment; filename="semi;colon.txt"', 'semi;colon.txt'],
    ['ATTACHMENT; FILENAME="case.txt"', 'case.txt'],
    ["attachment; filename=fallback.txt; filename*=UTF-8''na%C3%AFve%20%E4%B8%96.txt", 'naïve 世.txt'],
    ["attachment; filename*=iso-8859-1'en'%A3%20rates; filename=x", '£ rates'],
    ["attachment; filename*=UTF-8''%ff%fe; filename=plain.txt", 'plain.txt'],
    ["attachment; filename*=UTF-16''%00; filename=plain.txt", 'plain.txt'],
    ["attachment; filename*=UTF-8''bad%zz; filename=plain.txt", 'plain.txt'],
    ['attachment; filename="first.txt"; filename="second.txt"', 'first.txt'],
    [Buffer.from('attachment; filename="世界.txt"').toString('latin1'), '世界.txt'],
    [Buffer.from('attachment; filename="caf\xe9.txt"', 'latin1').toString('latin1'), 'café.txt'],
    ['attachment; filename=""', 'report of today.pdf'],
  ]
  for (const [disposition, name] of cases) t.equal(fileNameOf(disposition, address), name, disposition ?? 'no header')
})

void t.test('unsafe parts of a name are removed or replaced', async (t) => {
  const disposed = (name: string) => fileNameOf(`attachment; filename*=UTF-8''${encodeURIComponent(name)}`, address)
  const cases: readonly (readonly [sent: string, name: string])[] = [
    ['../../etc/passwd', 'passwd'],
    ['..\\..\\autoexec.bat', 'autoexec.bat'],
    ['/absolute', 'absolute'],
    ['..', 'report of today.pdf'],
    ['.', 'report of today.pdf'],
    ['folder/', 'report of today.pdf'],
    ['  spaces.txt  ', 'spaces.txt'],
    ['a\0b\r\nc.txt', 'abc.txt'],
    ['caf\ufffd.txt', 'caf.txt'],
    ['photo\u202egpj.exe', 'photogpj.exe'],
    ['.tidegate-staging', '_tidegate-staging'],
    ['.bashrc', '.bashrc'],
    [`${'x'.repeat(300)}.tar`, `${'x'.repeat(251)}.tar`],
    [`${'世'.repeat(100)}.txt`, `${'世'.repeat(83)}.txt`],
  ]
  for (const [sent, name] of cases) {
    t.equal(disposed(sent), name, sent)
    t.equal(checkName(disposed(sent)), name)
  }
  for (const [path, name] of [
    ['/', 'download'],
    ['/%2e%2e%2f%2e%2e%2fpasswd', 'passwd'],
    ['/%2e%2e%5c', 'download'],
    ['/%00', 'download'],
    ['/%ff', '%ff'],
  ] as const) {
    t.equal(fileNameOf(undefined, new URL(`http://example.org${path}`)), name, path)
  }
})
