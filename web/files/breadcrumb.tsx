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
        {[topName || texts.files.home, ...names].map((name, index) => {
          const folder = names.slice(0, index).reduce(joined, top)
          return (
            <li key={index}>
              <Link
                href={addressOf(folder)}
                data-folder={folder}
                aria-current={index === names.length ? 'page' : undefined}
              >
                {name}
              </Link>
            </li>
          )
        })}
      </ol>
    </nav>
  )
}
