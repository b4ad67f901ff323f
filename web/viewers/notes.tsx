/** The readme and the header of a folder, which its rule defines: Markdown, or a URL where it is. */
import { Loaded, part } from '../components/loaded.tsx'
import './notes.css'

const Markdown = part(() => import('./markdown.tsx'))

/** `path`: the folder, to which relative links refer. */
export function Notes({ text, path }: { readonly text: string; readonly path: string }) {
  if (text.trim() === '') return null
  return (
    <div class="notes">
      {isUrl(text) ? (
        // The content would be fetched from another host, which then knows who looks at the folder.
        <a href={text.trim()} target="_blank" rel="noopener noreferrer">
          {text.trim()}
        </a>
      ) : (
        <Loaded quiet>
          <Markdown text={text} path={path} />
        </Loaded>
      )}
    </div>
  )
}

function isUrl(text: string): boolean {
  return /^\s*https?:\/\/\S+\s*$/i.test(text) && URL.canParse(text.trim())
}
