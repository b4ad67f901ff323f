/** The README.md of a folder, below its entries. */
import { useQuery } from '@tanstack/preact-query'
import { BookOpen } from 'lucide-preact'
import { Link } from 'wouter-preact'
import { keys } from '../api/keys.ts'
import { Loaded, part } from '../components/loaded.tsx'
import { addressOf, joined } from '../components/places.ts'
import { entriesNamed, type Display, type Entry, type FolderPage } from '../entries/folder.ts'
import { useSource } from '../entries/source.ts'
import './folder-readme.css'

const Markdown = part(() => import('../viewers/markdown.tsx'))

/** A larger file is not shown, in bytes. */
const largest = 256 * 1024

/** The README.md, in any case, that the user may read. `folder`: its first page. */
export function useReadme(path: string, display: Display, folder: FolderPage | undefined): Entry | undefined {
  const isWhole = folder !== undefined && display.contains === '' && folder.content.length === folder.total
  const { data: found } = useQuery({ ...entriesNamed(path, 'readme.md'), enabled: folder !== undefined && !isWhole })
  const { content = [] } = (isWhole ? folder : found) ?? {}
  return content.find(
    ({ name, is_dir: isFolder, size, unreadable }) =>
      name.toLowerCase() === 'readme.md' && !isFolder && size > 0 && size <= largest && unreadable !== true,
  )
}

export function FolderReadme({ path, file }: { readonly path: string; readonly file: Entry }) {
  const { previewUrl } = useSource()
  const { name, sign, modified, size } = file
  const { data: text } = useQuery({
    queryKey: keys.readme(joined(path, name), modified, size),
    queryFn: ({ signal }) => textAt(previewUrl(joined(path, name), sign), signal),
  })
  if (text === undefined) return null
  return (
    <section class="readme" aria-label={name} tabIndex={0}>
      <p class="readme-name">
        <BookOpen aria-hidden size={16} />
        <Link href={addressOf(joined(path, name))}>{name}</Link>
      </p>
      <Loaded quiet>
        <Markdown text={text} path={path} />
      </Loaded>
    </section>
  )
}

async function textAt(url: string, signal: AbortSignal): Promise<string> {
  const response = await fetch(url, { signal, cache: 'no-cache' })
  if (!response.ok) throw new Error(response.statusText)
  return response.text()
}
