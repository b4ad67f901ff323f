/** The entry of the console. */
import { render } from 'preact'
import { App } from './app.tsx'
import './components/appearance.ts'
import { applyMainColor } from './components/main-color.ts'
import { withTexts } from './texts/texts.ts'
import './styles/base.css'
import './styles/controls.css'
import './styles/patterns.css'
import './styles/tokens.css'
import './styles/utilities.css'

applyMainColor()
const root = document.getElementById('console')
if (root) {
  withTexts(Promise.resolve()).then(
    () => render(<App />, root),
    // There is no text in the language yet.
    () => root.append('The page could not be loaded. Check the connection, and load it again.'),
  )
}
