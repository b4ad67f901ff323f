/**
 * Comments must not refer to names that no longer exist, and must say what they are about. Every source file must begin
 * with a comment on what it holds.
 */
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import ts from 'typescript'

/** A name of the code in camel case: the first letter in lower case, a later one in upper case. */
const codeName = /`#?([a-z]+[A-Z]\w*)(?:\(.*?\))?`/g

/** The first line of a doc comment that begins with a word for what only the code below it names. */
const withoutSubject =
  /^[^\S\n]*\/\*\*\s+(?:\*\s+)?((?:Of|That of|Those|The same|It|Its|In bytes|In (?:milli)?seconds|Also|Otherwise|Whose|By which)\b.*?)(?: \*\/)?$/gm

/** A comment on a `max…` that says of what it is, and not that it is the maximum. */
const limit =
  /^[^\S\n]*\/\*\* ((?:Characters|Bytes|Concurrent|Seconds|Milliseconds|Entries) .*?) \*\/\n\s*(?:export )?const max/gm

/** The folders of the product. */
const product = ['src', 'protocols', 'drivers']

/** All folders with code. */
const everything = [...product, 'web', 'bench', 'tools', 'test']

void t.test('every source file begins with a doc comment', async (t) => {
  const files = await sourceFiles([...product, 'bench', 'test'])
  t.ok(files.length > 500, 'the files were found')
  for (const { file, text } of files) t.match(text, /^(?:#!.*\n)?\/\*\*\s/, file)
})

void t.test('every identifier in a comment exists in the code', async (t) => {
  const names = new Set<string>()
  const comments: SourceFile[] = []
  for (const { file, text } of await sourceFiles(product)) {
    const ranges = commentRanges(text)
    comments.push(...ranges.map(({ pos, end }) => ({ file, text: text.slice(pos, end) })))
    const code = ranges.reduceRight((rest, { pos, end }) => rest.slice(0, pos) + rest.slice(end), text)
    for (const found of code.matchAll(/[\p{L}_$][\p{L}\p{N}_$]*/gu)) names.add(found[0])
  }
  let count = 0
  for (const { file, text } of comments) {
    for (const [, name = ''] of text.matchAll(codeName)) {
      count += 1
      t.ok(names.has(name), `${file}: ${name}`)
    }
  }
  t.ok(count > 100, 'the names were found')
})

void t.test('a doc comment can be understood without the code below it', async (t) => {
  const advice = 'a comment says what it is about: not "Of all uploads", but "Bytes of all uploads"'
  for (const { file, text } of await sourceFiles(everything)) {
    for (const [line, comment] of commentsWithoutSubject(text)) t.fail(`${file}:${line}: ${comment} (${advice})`)
  }
  const comments = ['/** Those of all nodes. */', '  /**', '   * The same, in pages.', '   */', '  // Of the file.']
  const found = [
    [1, 'Those of all nodes.'],
    [2, 'The same, in pages.'],
  ]
  t.same(commentsWithoutSubject(comments.join('\n')), found)
})

void t.test('a comment on a limit says that it is one', async (t) => {
  for (const { file, text } of await sourceFiles(product)) {
    for (const [line, comment] of limitsWithoutWord(text)) t.fail(`${file}:${line}: ${comment} (“Maximum bytes of …”)`)
  }
  const limits = [
    '/** Bytes of a name. */',
    'const maxName = 255',
    '/** Maximum bytes of a path. */',
    'const maxPath = 4096',
  ]
  t.same(limitsWithoutWord(limits.join('\n')), [[1, 'Bytes of a name.']])
})

void t.test('comments are no wider than the code', async (t) => {
  const width = 120
  for (const { file, text } of await sourceFiles(everything)) {
    for (const [index, line] of text.split('\n').entries()) {
      const isComment = /^\s*(?:\/\/|\/?\*)/.test(line)
      if (isComment && line.length > width) t.fail(`${file}:${index + 1}: ${line}`)
    }
  }
  t.end()
})

interface SourceFile {
  readonly file: string
  readonly text: string
}

/** Written from the OpenAPI document when the console is built. */
const generated = 'web/api/schema.ts'

async function sourceFiles(folders: readonly string[]): Promise<readonly SourceFile[]> {
  const files: SourceFile[] = []
  for (const folder of folders) {
    for (const name of await readdir(folder, { recursive: true })) {
      if (!/(?<!\.d)\.tsx?$/.test(name)) continue
      const file = join(folder, name)
      if (file === generated) continue
      files.push({ file, text: await readFile(file, 'utf8') })
    }
  }
  return files
}

function commentsWithoutSubject(text: string): readonly (readonly [line: number, comment: string])[] {
  return [...text.matchAll(withoutSubject)].map(({ index, 1: comment = '' }) => {
    return [text.slice(0, index).split('\n').length, comment]
  })
}

function limitsWithoutWord(text: string): readonly (readonly [line: number, comment: string])[] {
  return [...text.matchAll(limit)].map(({ index, 1: comment = '' }) => [
    text.slice(0, index).split('\n').length,
    comment,
  ])
}

/** The comments of a file, in order. */
function commentRanges(text: string): readonly ts.TextRange[] {
  const source = ts.createSourceFile('file.ts', text, ts.ScriptTarget.Latest)
  const ranges = new Map<number, ts.TextRange>()
  const visit = (node: ts.Node): void => {
    const children = node.getChildren(source)
    if (children.length === 0) {
      const before = ts.getLeadingCommentRanges(text, node.pos) ?? []
      const after = ts.getTrailingCommentRanges(text, node.end) ?? []
      for (const range of [...before, ...after]) ranges.set(range.pos, range)
    }
    children.forEach(visit)
  }
  visit(source)
  return [...ranges.values()].sort((one, other) => one.pos - other.pos)
}
