/** The way from the top to the shown folder, as links. */
import { Link } from 'wouter-preact'
import { addressOf, joined } from '../components/places.ts'
import { useSource } from '../entries/source.ts'
import { textsOf } from '../texts/texts.ts'
import './breadcrumb.css'

const texts = textsOf('files')

export function Breadcrumb({ path }: { readonly path: string }) {
  const { top, name: topName } = useSource()
  const names = path
    .slice(top.length)
    .split('/')
    .filter((name) => name !== '')
  return (
    <nav aria-label={texts.files.path} class="breadcrumb">
      <ol>
        <li>
          <Link href={addressOf(top)} aria-current={names.length === 0 ? 'page' : undefined}>
            {topName || texts.files.home}
          </Link>
        </li>
        {names.map((name, index) => (
          <li key={index}>
            <Link
              href={addressOf(names.slice(0, index + 1).reduce(joined, top))}
              aria-current={index === names.length - 1 ? 'page' : undefined}
            >
              {name}
            </Link>
          </li>
        ))}
      </ol>
    </nav>
  )
}
