/** What is known of an entry, of several entries, or of the folder that is shown. */
import { useQuery } from '@tanstack/preact-query'
import type { ComponentChildren } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import { post } from '../api/client.ts'
import { keys } from '../api/keys.ts'
import { FileType, Right } from '../api/schema.ts'
import { Copyable } from '../components/copyable.tsx'
import { Dialog } from '../components/dialog.tsx'
import { messageOf } from '../components/error-text.ts'
import { joined, nameOf, parentOf } from '../components/places.ts'
import { entryInMemory, listFolder, type Entry } from '../entries/folder.ts'
import { useSource, type Source } from '../entries/source.ts'
import { folderPasswords } from '../session/folder-passwords.ts'
import { formatSize, formatTimeWithSeconds, list, number } from '../texts/format.ts'
import { textFor, textsOf } from '../texts/texts.ts'
import type { ChangeProps } from './change.ts'
import { countFiles, type Count } from './count-files.ts'
import './properties-dialog.css'

const texts = textsOf('common', 'files', 'properties')

/** `names`: none for the folder itself. */
export function PropertiesDialog({ path, names, onClose }: ChangeProps) {
  const source = useSource()
  const [name] = names
  const paths = name === undefined ? [path] : names.map((each) => joined(path, each))
  const [first = path] = paths
  return (
    <Dialog title={texts.files.properties} onClose={onClose}>
      {paths.length === 1 ? <OfOne path={first} source={source} /> : <OfSeveral folder={path} names={names} />}
    </Dialog>
  )
}

function OfOne({ path, source }: { readonly path: string; readonly source: Source }) {
  const { data: entry, error } = useQuery({
    queryKey: keys.entry(path),
    queryFn: ({ signal }) => post('/api/fs/get', { path, password: folderPasswords.of(path) }, { signal }),
  })
  if (error && !entry) return <p class="error">{messageOf(error)}</p>
  if (!entry) return <p class="skeleton">{texts.loading}</p>
  const { is_dir: isFolder, size, created, modified, mount_details: space, provider, unreadable } = entry
  const place = source.kind === 'tree' ? path : path.slice(source.top.length)
  return (
    <>
      <Facts
        facts={[
          [texts.files.name, (source.kind === 'share' && path === source.top ? source.name : nameOf(path)) || '/'],
          [texts.properties.kind, kindOf(entry)],
          [texts.files.size, isFolder ? '' : exactSize(size)],
          [texts.files.modified, formatTimeWithSeconds(modified)],
          [texts.properties.created, created === modified ? '' : formatTimeWithSeconds(created)],
          [texts.properties.storage, provider === 'unknown' ? '' : provider],
          [
            texts.properties.space,
            space && texts.properties.free(formatSize(space.free_space), formatSize(space.total_space)),
          ],
          ...Object.entries(entry.hash_info ?? {}).map(([algorithm, digest]): Fact => [
            algorithm,
            <code>{digest}</code>,
          ]),
          [texts.properties.rights, unreadable === true && texts.files.unreadable],
        ]}
      />
      {source.kind === 'tree' && unreadable !== true && <RightsThere folder={isFolder ? path : parentOf(path)} />}
      {isFolder && <Content folders={[path]} />}
      {place !== '' && (
        <div>
          {texts.files.path}
          <Copyable text={place} />
        </div>
      )}
    </>
  )
}

function OfSeveral({ folder, names }: { readonly folder: string; readonly names: readonly string[] }) {
  const entries = names.map((name) => entryInMemory(folder, name)).filter((entry) => entry !== undefined)
  const files = entries.filter((entry) => !entry.is_dir)
  const folders = entries.filter((entry) => entry.is_dir).map(({ name }) => joined(folder, name))
  const size = files.reduce((sum, each) => sum + each.size, 0)
  return (
    <>
      <Facts
        facts={[
          [texts.properties.selected, texts.files.entries(names.length)],
          [texts.properties.files, entries.length === names.length && number(files.length)],
          [texts.properties.folders, entries.length === names.length && number(folders.length)],
          [texts.files.size, entries.length === names.length && files.length > 0 && exactSize(size)],
        ]}
      />
      {folders.length > 0 && <Content folders={folders} others={{ files: files.length, size }} />}
      <div>
        {texts.properties.folder}
        <Copyable text={folder} />
      </div>
    </>
  )
}

type Fact = readonly [name: string, value: ComponentChildren]

/** A list of facts, without those that are not known. */
function Facts({ facts }: { readonly facts: readonly Fact[] }) {
  return (
    <dl class="properties">
      {facts
        .filter(([, value]) => value !== '' && value !== false && value !== undefined && value !== null)
        .flatMap(([name, value]) => [<dt key={name}>{name}</dt>, <dd key={`${name} value`}>{value}</dd>])}
    </dl>
  )
}

/** What the user may do in a folder, and with the entries there that have no grants of their own. */
function RightsThere({ folder }: { readonly folder: string }) {
  const { data } = useQuery({
    queryKey: keys.rights(folder),
    queryFn: async ({ signal }) => (await listFolder(folder, 0, 1, signal)).rights,
  })
  const { write, rename, move, copy, remove, share } = Right
  const names = [write, rename, move, copy, remove, share].filter((right) => data?.includes(right))
  return (
    <Facts
      facts={[
        [
          texts.properties.rights,
          data && list([texts.properties.read, ...names.map((name) => textFor(name, texts.properties.mayDo))]),
        ],
      ]}
    />
  )
}

interface ContentProps {
  readonly folders: readonly string[]
  /** Files beside them, which count too. */
  readonly others?: { readonly files: number; readonly size: number }
}

/** What the folders have at any depth. It is counted when the user asks for it, and until the user stops it. */
function Content({ folders, others = { files: 0, size: 0 } }: ContentProps) {
  const [count, setCount] = useState<Count>()
  const [isCounting, setCounting] = useState(false)
  const counting = useRef<AbortController>()
  useEffect(() => () => counting.current?.abort(), [])
  async function start(): Promise<void> {
    const { signal } = (counting.current = new AbortController())
    setCounting(true)
    setCount(undefined)
    const listPage = (path: string, page: number) => listFolder(path, page, pageLength, signal)
    setCount(await countFiles(folders, { list: listPage, onCount: setCount, signal }))
    setCounting(false)
  }
  return (
    <div class="content">
      <p role={isCounting ? undefined : 'status'}>
        {count === undefined
          ? texts.properties.notCounted
          : texts.facts([
              texts.properties.countedFiles(count.files + others.files),
              texts.properties.countedFolders(count.folders),
              exactSize(count.size + others.size),
            ])}
        {count && !isCounting && !count.isComplete && ` ${texts.properties.incomplete(count.unread)}`}
      </p>
      <button type="button" onClick={() => (isCounting ? counting.current?.abort() : void start())}>
        {isCounting ? texts.properties.stop : texts.properties.count}
      </button>
    </div>
  )
}

/** Number of entries in a response. */
const pageLength = 5000

function exactSize(bytes: number): string {
  const rounded = formatSize(bytes)
  return bytes < 1000 ? rounded : texts.withNote(rounded, texts.properties.bytes(bytes))
}

function kindOf({ name, is_dir: isFolder, type }: Pick<Entry, 'name' | 'is_dir' | 'type'>): string {
  if (isFolder) return texts.properties.kinds.folder
  const dot = name.lastIndexOf('.')
  const extension = dot > 0 ? name.slice(dot + 1) : ''
  const kind = textFor(FileType[type], texts.properties.kinds) ?? texts.properties.kinds.unknown
  return extension === '' ? kind : texts.withNote(kind, extension.toUpperCase())
}
