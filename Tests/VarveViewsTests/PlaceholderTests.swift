import Testing
import VarveViews
