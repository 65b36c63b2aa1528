from tollhouse.admission.context import AppContext as AppContext
from tollhouse.app import create_app as create_app
from tollhouse.config.section import Section as Section
from tollhouse.config.section import SettingError as SettingError
from tollhouse.config.section import setting as setting
from tollhouse.config.settings import Settings as Settings
from tollhouse.errors import Problem as Problem
from tollhouse.http.endpoint import Endpoint as Endpoint
from tollhouse.http.endpoint import Example as Example
from tollhouse.http.endpoint import Request as Request
from tollhouse.http.endpoint import Response as Response
from tollhouse.http.endpoint import endpoint as endpoint
from tollhouse.http.endpoint import endpoints_of as endpoints_of
from tollhouse.http.service import Component as Component
from tollhouse.http.service import Service as Service
from tollhouse.http.terms import FREE as FREE
from tollhouse.http.terms import KEY_OR_AGENT as KEY_OR_AGENT
from tollhouse.http.terms import Price as Price
from tollhouse.http.terms import Terms as Terms
from tollhouse.http.terms import free_then_paid as free_then_paid
from tollhouse.http.terms import key_with as key_with
from tollhouse.middleware.call import TollCall as TollCall
from tollhouse.middleware.middleware import TollMiddleware as TollMiddleware
from tollhouse.middleware.toll import Toll as Toll
from tollhouse.middleware.toll import toll as toll
from tollhouse.services import load_settings as load_settings

__version__: str
